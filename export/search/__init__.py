"""The search for the smallest model that keeps an accuracy promise."""
