"""Intent and slots of commands."""
