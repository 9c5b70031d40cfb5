"""Stores whose messages rest in the archive, and what is in it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from pydoc_data.topics import topics as chapters
from typing import Any

import psycopg
import pytest
from psycopg import sql

from faults import inspection
from recollect import Memory
from recollect.core import archive
from recollect.core.models import Message
from recollect.core.topics import from_stored
from recollect.settings import Settings
from support.tables import ask

CANARY = "7c1f0b6e9d2a48538e6f"  # by a word that looks random: an index keeps only the ends of words that begin alike
NEEDLE = CANARY[8:]
Open = Callable[..., Memory]
on_sqlite = pytest.mark.parametrize("location", ["sqlite"], indirect=True)


def folding(**more: Any) -> Settings:
    """One topic for a conversation, of which all but the first message and the last rest in the archive."""
    given = {"similarity_threshold": -1.0, "max_messages_per_topic": 2, "recent_message_keep": 1}
    return Settings(**given | {"memory_chunk_summarize_threshold": 0} | more)


def prose() -> Iterator[str]:
    """Real paragraphs, each once: what Python says of itself."""
    seen: set[str] = set()
    for chapter in chapters.values():
        for paragraph in chapter.split("\n\n"):
            text = paragraph.strip()
            if len(text) > 40 and text not in seen:
                seen.add(text)
                yield text


def of_bytes(count: int, source: Iterator[str]) -> list[str]:
    """The next paragraphs, together just above so many bytes."""
    found: list[str] = []
    while sum(len(one.encode()) for one in found) <= count:
        found.append(next(source))
    return found


def say(memory: Memory, conversation: str, texts: Sequence[str], **more: Any) -> list[Message]:
    roles = ("user", "assistant")
    return memory.add_many(
        conversation, [{"role": roles[n % 2], "content": text} | more for n, text in enumerate(texts)]
    )


def fold(memory: Memory) -> None:
    done = memory.drain()
    assert (done.complete, done.failed) == (True, {})


def archived(location: str) -> set[int]:
    """Keys of messages whose text rests in the archive; their text is nowhere else."""
    keys = {key for (key,) in ask(location, "SELECT message_key FROM archived")}
    assert not keys & {key for (key,) in ask(location, "SELECT message_key FROM texts")}
    return keys


def everything(memory: Memory) -> dict[str, list[Message]]:
    return {one.name: memory.history(one.name) for one in memory.conversations()}


def learned(open_memory: Open, location: str) -> Memory:
    """With a dictionary of the person's own, which packs their blocks."""
    memory = open_memory(settings=folding())
    say(memory, "trip", of_bytes(70_000, prose()))
    fold(memory)
    assert ask(location, "SELECT count(*) FROM dictionaries") == [(1,)]
    assert ask(location, "SELECT count(*) FROM blocks WHERE dictionary_key < 1000") == [(0,)]
    return memory


def bodies(location: str) -> dict[int, bytes]:
    return {key: bytes(body) for key, body in ask(location, "SELECT key, body FROM blocks")}


def replace_bodies(location: str, found: Mapping[int, bytes], table: str = "blocks") -> None:
    rows = [(body, key) for key, body in found.items()]
    if location.startswith("postgresql:"):
        with psycopg.connect(location) as server, server.cursor() as cursor:
            cursor.executemany(sql.SQL("UPDATE {} SET body = %s WHERE key = %s").format(sql.Identifier(table)), rows)
        return
    with inspection.connected(location) as file:
        file.executemany(f"UPDATE {table} SET body = ? WHERE key = ?", rows)  # noqa: S608 - ours


def members(location: str, blocks: Sequence[int] | set[int]) -> set[tuple[str, str]]:
    """Conversation and id of the messages of blocks."""
    rows = ask(
        location,
        "SELECT c.name, m.id, a.block_key FROM archived a JOIN messages m ON m.key = a.message_key"
        " JOIN conversations c ON c.key = m.conversation_key",
    )
    return {(name, one) for name, one, block in rows if block in blocks}


def many_blocks(memory: Memory, conversations: int = 30, messages: int = 8) -> dict[str, list[Message]]:
    """A block in each conversation."""
    source = prose()
    for number in range(conversations):
        say(memory, f"talk {number}", list(islice(source, messages)))
    fold(memory)
    return everything(memory)


def check_damage(memory: Memory, before: Mapping[str, list[Message]], lost: set[tuple[str, str]]) -> None:
    """What is lost comes back without its text and marked; everything else is as it was."""
    for name, messages in before.items():
        for old, new in zip(messages, memory.history(name), strict=True):
            if (name, old.id) in lost:
                assert (new.content, new.damaged, new.id, new.seq, new.at) == ("", True, old.id, old.seq, old.at)
            else:
                assert new == old


def held(location: str, needle: str) -> list[str]:
    """Where the needle can still be read: files or tables, blocks and dictionaries."""
    if location.startswith("postgresql:"):
        found = _tables_with(location, needle)
    else:  # by another process: one that opens and closes the files drops SQLite's locks on them
        folder = Path(location).parent
        grep = subprocess.run(
            ["grep", "-rlaiF", "-e", needle, str(folder)], capture_output=True, text=True, check=False
        )
        found = grep.stdout.split()
    dictionaries = {key: bytes(body) for key, body in ask(location, "SELECT key, body FROM dictionaries")}
    found += [f"dictionary {key}" for key, body in dictionaries.items() if needle.encode() in archive.unpack(body)]
    for key, body in bodies(location).items():
        found += [f"block {key}" for text in inspection.unpacked(body, dictionaries).values() if needle in text]
    return found + [f"topic {one}" for one, told in told_of_topics(location).items() if needle in told]


def told_of_topics(location: str) -> dict[str, str]:
    """Titles and summaries, merged topics included."""
    rows = ask(location, "SELECT id, title, summary FROM topics")
    return {one: f"{title} {from_stored(summary and bytes(summary))}" for one, title, summary in rows}


def _tables_with(location: str, needle: str) -> list[str]:
    with psycopg.connect(location) as server:
        names = server.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        question = "SELECT count(*) FROM {0} WHERE {0}::text ILIKE %s OR {0}::text LIKE %s"
        patterns = (f"%{needle}%", f"%{needle.encode().hex()}%")  # blobs are shown in hexadecimal
        found = []
        for (name,) in names:
            row = server.execute(sql.SQL(question).format(sql.Identifier(name)), patterns).fetchone()
            found += [name] if row and row[0] else []
        return found
