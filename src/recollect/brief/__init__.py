"""Keep briefs up to date: decide when older turns are compressed, and write the next version."""
