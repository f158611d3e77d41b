"""Texts to vectors whose cosine says how similar they are."""
