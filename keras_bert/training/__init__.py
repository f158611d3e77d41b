"""Training on one or several devices: device settings, optimizers, training steps, resuming."""
