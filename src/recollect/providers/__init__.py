"""Tokenizers, models and embedders: the built-in ones, and those behind an OpenAI-compatible URL."""
