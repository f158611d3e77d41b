"""Pretrains a BERT: documents → TFRecord shards → masked batches → a model."""
