"""What the commands know of each task."""
