"""Rows of one width, which need no parsing: how they are stored, filled, read and masked."""
