"""Notices that a process was forked, so that the child uses nothing that works in its parent alone.

A fork copies objects, but not the threads that serve them. A connection, and the locks on its file, belong to the
parent: whoever uses or closes a copy in the child harms both.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from recollect.core.errors import StoreUnavailable

_kept: WeakSet[Any] = WeakSet()


class HomeProcess:
    """The process that something was opened in."""

    def __init__(self) -> None:
        self._id = os.getpid()

    @property
    def is_elsewhere(self) -> bool:
        """Return whether this code runs in a fork of that process."""
        return os.getpid() != self._id

    def check(self) -> None:
        """Raise StoreUnavailable in a fork of that process."""
        if self.is_elsewhere:
            raise StoreUnavailable(
                "forked",
                "This memory was opened before the process was forked, and cannot be used in the child. Open it after "
                "the fork: in each child, and not in the parent.",
                retryable=False,
            )


def keep_in_children(thing: Any) -> None:
    """Never destroy the copies of an object in forked children, not even when they end: that might harm the parent."""
    _kept.add(thing)


def call_in_children(function: Callable[[], None]) -> None:
    """Call a function in every forked child, before anything else runs there."""
    if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
        os.register_at_fork(after_in_child=function)


def _keep_all() -> None:
    for thing in list(_kept):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))  # a reference that nobody gives back


call_in_children(_keep_all)
