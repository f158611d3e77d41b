"""What `export` knows of each task, one module a task; `tasks/base` has the protocol and the registry."""
