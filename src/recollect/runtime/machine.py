"""Facts about the machine that the process runs on."""

from __future__ import annotations

import os


def count_usable_cores() -> int:
    """Return the number of cores this process may use; all of them if the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
