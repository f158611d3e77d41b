"""Texts to entities."""
