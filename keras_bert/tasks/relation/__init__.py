"""Relation classification: the relation between two marked entities of a text."""
