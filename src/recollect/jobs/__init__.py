"""Find and do derived work in the background: the worker, its leases, buffered writes."""
