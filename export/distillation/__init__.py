"""Distillation: train a student on the outputs of a teacher."""
