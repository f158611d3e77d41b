"""The process and the file system: atomic files, quiet imports, memory."""
