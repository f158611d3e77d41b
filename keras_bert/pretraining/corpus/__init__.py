"""Text files to pretraining examples on disk, and back into tf.data."""
