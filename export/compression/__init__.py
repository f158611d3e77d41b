"""Smaller models: fewer tokens, layers, heads, weights."""
