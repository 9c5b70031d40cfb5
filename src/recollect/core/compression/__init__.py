"""Decides what a brief holds: when to compress, which statements and ledger entries to keep, what is supported.

Pure functions. Nothing here reads a store or asks a model.
"""
