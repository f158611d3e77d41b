"""What `export` knows of each task, in one module per task; `tasks/base` has the protocol and the registry."""
