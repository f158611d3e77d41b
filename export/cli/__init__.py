"""The commands that `export` adds to `keras-bert`, one file for each, found by the entry points in setup.py."""
