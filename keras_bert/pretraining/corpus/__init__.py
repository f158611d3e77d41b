"""Turns text files into pretraining examples on disk, and reads them with tf.data."""
