"""Commands to an intent and its slots."""
