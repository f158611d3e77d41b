"""Labelled data: files, tables, GLUE, augmentation, the bundled assistant commands."""
