"""Batches of tokenized texts: length buckets, shared rows, datasets."""
