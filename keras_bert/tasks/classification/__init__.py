"""Text classification and regression, and aspect-based sentiment."""
