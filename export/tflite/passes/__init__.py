"""Rewrites of a converted graph that make it faster."""
