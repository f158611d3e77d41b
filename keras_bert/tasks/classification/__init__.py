"""Texts, or pairs of texts, to labels or numbers; sentiment toward an aspect."""
