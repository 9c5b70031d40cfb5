"""Serves memory over HTTP. Routes parse requests, call the memory and write answers; they never touch the store."""
