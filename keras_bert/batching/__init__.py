"""Tokenized texts to batches: length buckets, shared rows, datasets."""
