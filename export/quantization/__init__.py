"""Quantization: statistics, rounding, training with it."""
