"""A question and a context to the answer in the context."""
