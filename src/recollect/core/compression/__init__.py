"""Decide what a brief holds: triggers, statements, ledger entries, grounding. Pure functions."""
