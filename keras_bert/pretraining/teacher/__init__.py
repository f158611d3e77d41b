"""General distillation: a student learns from a teacher's hidden states on raw text."""
