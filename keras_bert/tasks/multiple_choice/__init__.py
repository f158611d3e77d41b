"""A context and choices to the right choice."""
