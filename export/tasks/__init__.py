"""What each task's exported file takes and gives."""
