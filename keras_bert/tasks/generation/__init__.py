"""Text generation: translation, summaries, dialogue."""
