"""Pretraining: documents → TFRecord shards → masked batches → a BERT of one's own."""
