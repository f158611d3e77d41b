"""TFLite files: reading, checking, editing, metadata."""
