"""Decisions, and nothing else: pure functions over frozen dataclasses.

No clock, no randomness, no I/O lives here; time, ids and settings arrive as arguments.
"""
