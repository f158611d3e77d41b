"""Edits of a converted graph that make it run faster."""
