"""Convert Keras models to TFLite files."""
