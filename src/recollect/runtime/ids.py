"""Makes new ids: UUID version 7, so that they sort by the time they were made."""

from __future__ import annotations

import os
import random
from datetime import datetime

from recollect.core.times import to_micros

# Not the module's own generator, which a program may seed: two runs must never make the same ids.
_GENERATOR = random.Random()  # noqa: S311 - ids are names, not secrets
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_GENERATOR.seed)


def new_id(now: datetime) -> str:
    """Return an id of 48 bits of milliseconds and 74 random bits. Built by hand for speed: every message needs one."""
    millis = max(0, to_micros(now) // 1000) & (1 << 48) - 1
    time, noise = f"{millis:012x}", f"{_GENERATOR.getrandbits(76):019x}"
    variant = "89ab"[int(noise[3], 16) & 3]
    return f"{time[:8]}-{time[8:]}-7{noise[:3]}-{variant}{noise[4:7]}-{noise[7:19]}"
