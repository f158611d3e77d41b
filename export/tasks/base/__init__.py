"""What a task tells `export` of itself, where it is registered, and what works for every registered task."""
