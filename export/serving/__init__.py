"""Tasks to SavedModels for TF Serving."""
