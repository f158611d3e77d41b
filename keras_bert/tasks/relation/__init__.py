"""Texts with two marked entities to the relation between them."""
