"""How models are trained: device settings now; optimizers, recipes and strategies as they come."""
