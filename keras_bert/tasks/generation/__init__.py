"""Texts to texts: translation, summaries, dialogue."""
