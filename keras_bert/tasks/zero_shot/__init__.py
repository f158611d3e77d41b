"""Zero-shot classification: labels that are named at prediction time."""
