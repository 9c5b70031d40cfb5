"""Exports that arrive as a zip: read in place, refused when they are hostile."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.core.errors import InvalidInput
from recollect.formats import Batch, LeftOut, Skipped, detect_file_format, read_file, source_size

RECORD = {
    "uuid": "u1", "name": "Bread", "chat_messages": [{"uuid": "m1", "sender": "human", "text": "How long to rise?"}],
}  # fmt: skip
CONVERSATIONS = json.dumps([RECORD]).encode()


def packed(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> io.BytesIO:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    stream.seek(0)
    return stream


def code_of(stream: io.BytesIO) -> str:
    with pytest.raises(InvalidInput) as refused:
        list(read_file(stream))
    return refused.value.code


def changed(stream: io.BytesIO, offset: int, layout: str, value: int) -> io.BytesIO:
    """The archive with one field of its (only) central directory entry overwritten."""
    data = bytearray(stream.getvalue())
    struct.pack_into(layout, data, data.index(b"PK\x01\x02") + offset, value)
    return io.BytesIO(bytes(data))


def test_conversations_are_read_straight_out_of_the_zip(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    path.write_bytes(packed({"users.json": b"[]", "conversations.json": CONVERSATIONS}).getvalue())
    seen: list[int] = []
    [batch, users] = read_file(path, progress=seen.append)
    assert users == LeftOut("users.json (data of your account)")
    assert isinstance(batch, Batch) and batch.conversation == "claude-u1"
    assert 0 < seen[-1] <= path.stat().st_size
    assert detect_file_format(path) == "claude"
    assert list(tmp_path.iterdir()) == [path]


def test_numbered_files_and_files_in_a_folder_are_read_in_order() -> None:
    second = json.dumps([{**RECORD, "uuid": "u2"}]).encode()
    stream = packed({"export/conversations-001.json": second, "export/conversations-000.json": CONVERSATIONS})
    assert [item.conversation for item in read_file(stream) if isinstance(item, Batch)] == ["claude-u1", "claude-u2"]


@pytest.mark.parametrize(
    "name", ["../conversations.json", "/conversations.json", "..\\conversations.json", "C:\\x\\conversations.json"]
)
def test_names_that_point_outside_are_not_read(name: str) -> None:
    assert code_of(packed({name: CONVERSATIONS})) == "no_conversations"


def test_zip_without_conversations_is_refused() -> None:
    assert code_of(packed({"chat.html": b"<html>"})) == "no_conversations"


def test_encrypted_zip_is_refused() -> None:
    assert code_of(changed(packed({"conversations.json": CONVERSATIONS}), 8, "<H", 1)) == "encrypted_archive"


def test_bomb_is_refused_by_its_declared_size() -> None:
    bomb = changed(packed({"conversations.json": CONVERSATIONS}), 24, "<I", 2 * 1024**3)
    assert code_of(bomb) == "archive_bomb"


def test_packing_that_cannot_be_bounded_is_refused() -> None:
    assert code_of(packed({"conversations.json": CONVERSATIONS}, zipfile.ZIP_BZIP2)) == "unreadable_archive"


def test_cut_or_damaged_zip_is_refused() -> None:
    whole = packed({"conversations.json": CONVERSATIONS}).getvalue()
    assert code_of(io.BytesIO(whole[:-30])) == "unreadable_archive"
    damaged = bytearray(whole)
    damaged[60:70] = b"\x00" * 10
    assert code_of(io.BytesIO(bytes(damaged))) == "unreadable_archive"


EXPORT = {
    "conversations.json": CONVERSATIONS,
    "memories.json": b'[{"conversations_memory": "Likes bread"}]',
    "projects/p1.json": b"{}",
    "projects/p2.json": b"{}",
    "users.json": b"[]",
    "new_thing.json": b"[]",
    "chat.html": b"<html>",
    "dalle-generations/a.webp": b"RIFF",
}
NOT_IMPORTED = {
    "memories.json (what Claude noted about you)": 1,
    "files in projects/ (instructions and documents of Claude's projects)": 2,
    "users.json (data of your account)": 1,
    "new_thing.json": 1,
    "other files": 2,
}


def unpacked(folder: Path, members: dict[str, bytes]) -> Path:
    for name, data in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("form", ["zip", "folder", "wrapped"])
def test_files_without_conversations_are_named_as_not_imported(form: str, tmp_path: Path) -> None:
    wrapped = {f"export/{name}": data for name, data in EXPORT.items() if name.count("/") == 0}
    source = packed(EXPORT) if form == "zip" else unpacked(tmp_path, wrapped if form == "wrapped" else EXPORT)
    batch, *others = read_file(source)
    assert isinstance(batch, Batch) and batch.conversation == "claude-u1"
    reported = {item.what: item.count for item in others if isinstance(item, LeftOut)}
    if form == "wrapped":
        assert reported == {name: 1 for name in NOT_IMPORTED if "projects" not in name}
    else:
        assert reported == NOT_IMPORTED


def test_a_folder_is_read_file_by_file_and_one_that_is_broken_is_reported(tmp_path: Path) -> None:
    second = json.dumps([{**RECORD, "uuid": "u2"}]).encode()
    files = {
        "conversations-000.json": CONVERSATIONS,
        "conversations-001.json": b"# notes",
        "conversations-002.json": second,
    }
    seen: list[int] = []
    items = list(read_file(unpacked(tmp_path, files), progress=seen.append))
    assert [item.conversation for item in items if isinstance(item, Batch)] == ["claude-u1", "claude-u2"]
    [skipped] = [item for item in items if isinstance(item, Skipped)]
    assert skipped.where == "conversations-001.json" and "is not JSON" in skipped.reason
    assert seen[-1] == source_size(tmp_path) == sum(map(len, files.values()))
    assert detect_file_format(tmp_path) == "claude"


def test_a_folder_without_conversations_is_refused(tmp_path: Path) -> None:
    unpacked(tmp_path, {"notes.txt": b"hello", "deep/down/conversations.json": CONVERSATIONS})
    with pytest.raises(InvalidInput) as refused:
        list(read_file(tmp_path))
    assert refused.value.code == "no_conversations"
    assert "folder without a conversations.json" in refused.value.message


def test_a_zip_of_projects_alone_says_what_it_holds() -> None:
    with pytest.raises(InvalidInput) as refused:
        list(read_file(packed({"projects/p1.json": b"{}"})))
    assert "instructions and documents of Claude's projects" in refused.value.message


@settings(deadline=None)
@given(changes=st.lists(st.tuples(st.integers(4, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_zip_with_any_bytes_changed_gives_batches_or_invalid_input(changes: list[tuple[int, int]]) -> None:
    data = bytearray(packed({"conversations.json": CONVERSATIONS}).getvalue())
    for position, value in changes:
        data[4 + position % (len(data) - 4)] = value
    try:
        assert all(isinstance(item, Batch | Skipped | LeftOut) for item in read_file(io.BytesIO(bytes(data))))
    except InvalidInput as refused:
        assert refused.code in {
            "unreadable_archive",
            "no_conversations",
            "encrypted_archive",
            "archive_bomb",
            "unknown_format",
        }
