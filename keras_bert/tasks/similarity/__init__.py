"""Sentence embeddings: vectors whose cosine is the similarity of texts."""
