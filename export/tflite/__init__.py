"""Keras models to TFLite files."""
