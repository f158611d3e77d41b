"""The commands of `keras-bert`, a module each."""
