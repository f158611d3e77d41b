"""What a BERT is fine-tuned for: rows of data, their metrics, and one file a task."""
