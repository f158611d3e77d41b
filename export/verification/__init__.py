"""Exported files compared with Keras, and measured."""
