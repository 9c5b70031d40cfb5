"""Fills stores with archived messages, and looks into the archive."""

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
from recollect.core.message import Message
from recollect.settings import Settings
from recollect.storage.shipped_dictionary import shipped_dictionary
from recollect.storage.topic_summary import unpack_statements
from support.pooler import direct
from support.tables import ask

CANARY = "7c1f0b6e9d2a48538e6f"  # looks random: an index keeps only the ends of words that begin alike
NEEDLE = CANARY[8:]
Open = Callable[..., Memory]
on_sqlite = pytest.mark.parametrize("location", ["sqlite"], indirect=True)


def folding_settings(**more: Any) -> Settings:
    """Return settings with one topic per conversation, of which all but the first and last message are archived."""
    values = {"similarity_threshold": -1.0, "max_messages_per_topic": 2, "recent_message_keep": 1}
    return Settings(**values | {"memory_chunk_summarize_threshold": 0} | more)


def prose() -> Iterator[str]:
    """Yield real paragraphs, each once: from the documentation of Python."""
    seen: set[str] = set()
    for chapter in chapters.values():
        for paragraph in chapter.split("\n\n"):
            text = paragraph.strip()
            if len(text) > 40 and text not in seen:
                seen.add(text)
                yield text


def take_bytes(count: int, source: Iterator[str]) -> list[str]:
    """Return the next paragraphs, together just above `count` bytes."""
    paragraphs: list[str] = []
    while sum(len(paragraph.encode()) for paragraph in paragraphs) <= count:
        paragraphs.append(next(source))
    return paragraphs


def add_texts(memory: Memory, conversation: str, texts: Sequence[str], **more: Any) -> list[Message]:
    roles = ("user", "assistant")
    return memory.add_many(
        conversation, [{"role": roles[n % 2], "content": text} | more for n, text in enumerate(texts)]
    )


def drain_fully(memory: Memory) -> None:
    done = memory.drain()
    assert (done.complete, done.failed) == (True, {})


def archived_keys(location: str) -> set[int]:
    """Return the keys of archived messages. Check that their texts are stored nowhere else."""
    keys = {key for (key,) in ask(location, "SELECT message_key FROM archived")}
    assert not keys & {key for (key,) in ask(location, "SELECT message_key FROM texts")}
    return keys


def all_messages(memory: Memory) -> dict[str, list[Message]]:
    return {conversation.name: memory.history(conversation.name) for conversation in memory.conversations()}


def open_with_dictionary(open_memory: Open, location: str) -> Memory:
    """Open a memory whose person has a learned dictionary that packs all blocks."""
    memory = open_memory(settings=folding_settings())
    add_texts(memory, "trip", take_bytes(70_000, prose()))
    drain_fully(memory)
    assert ask(location, "SELECT count(*) FROM dictionaries") == [(1,)]
    assert ask(location, "SELECT count(*) FROM blocks WHERE dictionary_key < 1000") == [(0,)]
    return memory


def block_bodies(location: str) -> dict[int, bytes]:
    return {key: bytes(body) for key, body in ask(location, "SELECT key, body FROM blocks")}


def replace_block_bodies(location: str, found: Mapping[int, bytes], table: str = "blocks") -> None:
    rows = [(body, key) for key, body in found.items()]
    if location.startswith("postgresql:"):
        with psycopg.connect(direct(location)) as server, server.cursor() as cursor:
            cursor.executemany(sql.SQL("UPDATE {} SET body = %s WHERE key = %s").format(sql.Identifier(table)), rows)
        return
    with inspection.connected(location) as file:
        file.executemany(f"UPDATE {table} SET body = ? WHERE key = ?", rows)  # noqa: S608 - ours


def messages_in_blocks(location: str, blocks: Sequence[int] | set[int]) -> set[tuple[str, str]]:
    """Return conversation and id of the messages whose texts are in these blocks."""
    rows = ask(
        location,
        "SELECT c.name, m.id, a.block_key FROM archived a JOIN messages m ON m.key = a.message_key"
        " JOIN conversations c ON c.key = m.conversation_key",
    )
    return {(name, message_id) for name, message_id, block in rows if block in blocks}


def fill_many_blocks(memory: Memory, conversations: int = 30, messages: int = 8) -> dict[str, list[Message]]:
    """Fill a block in each of some conversations. Return all messages."""
    source = prose()
    for number in range(conversations):
        add_texts(memory, f"talk {number}", list(islice(source, messages)))
    drain_fully(memory)
    return all_messages(memory)


def check_damage(memory: Memory, before: Mapping[str, list[Message]], lost: set[tuple[str, str]]) -> None:
    """Check that lost messages come back marked and without text, and that all others are unchanged."""
    for name, messages in before.items():
        for old, new in zip(messages, memory.history(name), strict=True):
            if (name, old.id) in lost:
                assert (new.content, new.damaged, new.id, new.seq, new.at) == ("", True, old.id, old.seq, old.at)
            else:
                assert new == old


def find_remains(location: str, needle: str) -> list[str]:
    """Return where the needle can still be read: files or tables, blocks, dictionaries, topics."""
    if location.startswith("postgresql:"):
        found = _tables_with(location, needle)
    else:  # by another process: one that opens and closes the files drops SQLite's locks on them
        folder = Path(location).parent
        grep = subprocess.run(
            ["grep", "-rlaiF", "-e", needle, str(folder)], capture_output=True, text=True, check=False
        )
        found = grep.stdout.split()
    dictionaries = {key: bytes(body) for key, body in ask(location, "SELECT key, body FROM dictionaries")}
    found += [
        f"dictionary {key}"
        for key, body in dictionaries.items()
        if needle.encode() in archive.unpack_dictionary(body, shipped_dictionary())
    ]
    for key, body in block_bodies(location).items():
        found += [f"block {key}" for text in inspection.unpacked(body, dictionaries).values() if needle in text]
    return found + [f"topic {topic_id}" for topic_id, text in topic_texts(location).items() if needle in text]


def topic_texts(location: str) -> dict[str, str]:
    """Return title and summary of every topic by its id, merged topics included."""
    rows = ask(location, "SELECT id, title, summary FROM topics")
    return {topic_id: f"{title} {unpack_statements(summary and bytes(summary))}" for topic_id, title, summary in rows}


def _tables_with(location: str, needle: str) -> list[str]:
    with psycopg.connect(direct(location)) as server:
        names = server.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        question = "SELECT count(*) FROM {0} WHERE {0}::text ILIKE %s OR {0}::text LIKE %s"
        patterns = (f"%{needle}%", f"%{needle.encode().hex()}%")  # blobs are shown in hexadecimal
        found = []
        for (name,) in names:
            row = server.execute(sql.SQL(question).format(sql.Identifier(name)), patterns).fetchone()
            found += [name] if row and row[0] else []
        return found
