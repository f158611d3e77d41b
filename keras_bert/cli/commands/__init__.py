"""The commands of `keras-bert`, one module each."""
