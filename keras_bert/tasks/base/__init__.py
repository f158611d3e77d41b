"""Base of all tasks: the `Task` class, fitting, saving, registration."""
