"""Text to token ids and back: tokenizer, vocabulary, packing."""
