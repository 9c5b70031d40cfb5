"""Reads text: words, sentences, passages, identifiers and speakers. Pure functions."""
