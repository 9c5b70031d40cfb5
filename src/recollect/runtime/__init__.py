"""Small things that depend on the running process: ids, cores, deadlines, error logs."""
