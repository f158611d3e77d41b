"""The commands that `export` adds to `keras-bert`: one file each, found by the entry points in setup.py.

`keras_bert` knows nothing of `export`; what is installed beside it may bring commands of its own.
"""
