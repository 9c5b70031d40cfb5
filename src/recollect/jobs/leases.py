"""Who holds a lease: a name that tells other processes of the same machine whether its holder still runs."""

from __future__ import annotations

import os
import platform
import re
from datetime import datetime
from typing import Final

from recollect.runtime.ids import new_id

_NAME: Final = re.compile(r"(?P<host>.*)/(?P<process>[0-9]{1,18})/[^/]*", re.DOTALL)


def new_holder(now: datetime) -> str:
    return f"{platform.node()}/{os.getpid()}/{new_id(now)}"


def is_gone(holder: str) -> bool:
    """Whether the holder is a process of this machine that has ended. In doubt it has not: its lease runs out anyway.

    If it is wrong (two containers with one name on one file), work is done twice, which does no harm.
    """
    found = _NAME.fullmatch(holder)
    if found is None or found["host"] != platform.node() or os.name != "posix":
        return False  # elsewhere, asking whether a process runs may end it
    try:
        os.kill(int(found["process"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
