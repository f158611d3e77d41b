"""The protocol between `export` and a task, the registry, and what works for every registered task."""
