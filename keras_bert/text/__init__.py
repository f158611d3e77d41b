"""Text to token ids and back: tokenizer, vocabulary, model inputs."""
