"""After an erase no byte of the texts is left in the files, whatever shape the tree of rows had.

SQLite overwrites the rows it deletes, but not the copies it leaves behind when a deletion moves their neighbours to
another page. Whether one remains depends on the sizes of the rows, hence many shapes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.victim import canary_of, fields_of, ids_of
from recollect import Memory
from recollect.storage.sqlite_file import read_blocks
from recollect.testing import FakeClock

pytestmark = pytest.mark.kill


def _left_after_erasing(path: Path, shape: int) -> list[tuple[str, int, bool]]:
    """Return erased conversations whose text is still in the files, with what their receipts say."""
    left = []
    with Memory(path, worker=False, clock=FakeClock()) as memory:
        names = [f"{shape}-{number}" for number in range(20)]
        for name in names:
            memory.add_many(name, [fields_of(one) for one in ids_of(name)])
        for number, name in enumerate(names):
            if number % 3:
                receipt = memory.erase(conversation=name)
                held = b"".join((*read_blocks(str(path)), *read_blocks(f"{path}-wal")))
                if receipt.pending or receipt.remaining or canary_of(name)[8:].encode() in held:
                    left.append((name, receipt.remaining, receipt.pending))
    return left


def test_no_word_of_an_erased_conversation_is_left_in_the_files(tmp_path: Path, full_count: bool) -> None:
    for shape in range(200 if full_count else 15):
        left = _left_after_erasing(tmp_path / f"{shape}.db", shape)
        assert left == [], "erased, and still to be read: (conversation, remaining, pending)"


def test_the_scan_finds_what_a_plain_delete_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This proves that the test above can fail: unless the file is rewritten, some words stay."""
    monkeypatch.setattr("recollect.storage.sqlite.rewrite", lambda connection: None)
    assert any(_left_after_erasing(tmp_path / f"{shape}.db", shape) for shape in range(15))
