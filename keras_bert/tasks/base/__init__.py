"""What all tasks share: the `Task` class, saving, fitting."""
