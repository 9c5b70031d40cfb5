"""Recollect: a memory for LLM chat applications."""
