"""Finds dates and periods in text, and resolves them against a moment and a zone. Pure functions."""
