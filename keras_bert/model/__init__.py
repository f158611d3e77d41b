"""The BERT model: config, layers, encoder, heads."""
