"""Files that appear under their name only when they are whole: backups and exports are written to a draft first."""

from __future__ import annotations

import glob
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from recollect.core.errors import InvalidInput, StoreUnavailable

ABANDONED_SECONDS: Final = 600  # since the last write to a draft; then its writer is taken for dead


@contextmanager
def new_file(target: str, *, replace: bool = False) -> Iterator[str]:
    """Yield the name of a draft to write. When the block ends, sync it and publish it under the name `target`.

    A file that exists is replaced only with `replace`.
    """
    goal = Path(target)
    if not goal.parent.is_dir():
        raise InvalidInput("folder_not_found", f"There is no folder {goal.parent}.")
    if goal.exists() and not replace:
        raise _exists(target)
    draft = goal.with_name(f"{goal.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.part")
    draft.touch(mode=0o600)
    try:
        yield str(draft)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        _publish(draft, goal, replace=replace)
    except FileExistsError:
        raise _exists(target) from None
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(goal.parent)


def _publish(draft: Path, goal: Path, *, replace: bool) -> None:
    if not replace:
        try:
            goal.hardlink_to(draft)  # unlike a rename, this fails if another process was quicker
        except FileExistsError:
            raise
        except OSError:  # a file system without links: claim the name first
            os.close(os.open(goal, os.O_CREAT | os.O_EXCL, 0o600))
        else:
            return
    draft.replace(goal)


def _exists(target: str) -> StoreUnavailable:
    return StoreUnavailable("backup_exists", f"{target} exists already.", retryable=False)


def copies_beside(path: Path) -> list[Path]:
    """Return the backups and unfinished drafts that Recollect put beside a file."""
    name = glob.escape(path.name)
    return [*path.parent.glob(f"{name}.*.backup"), *path.parent.glob(f"{name}.*.part")]


def clear_drafts(path: str) -> None:
    """Remove drafts that a killed process left beside a file: they may hold text.

    Nothing says for sure that the writer is gone, but a writer does not pause for minutes.
    """
    for draft in copies_beside(Path(path)):
        with suppress(FileNotFoundError):
            if draft.suffix == ".part" and time.time() - draft.stat().st_mtime > ABANDONED_SECONDS:
                draft.unlink()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
