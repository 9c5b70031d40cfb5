"""Helpers that depend on the running process: new ids, usable cores, deadlines, error logs."""
