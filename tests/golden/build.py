"""Writes the golden databases of a schema: run once when a schema is released, and commit what it writes.

    python tests/golden/build.py 8

`schema_NNNN.sqlite` is a whole file; `schema_NNNN.postgres.sql` fills tables that migrations 1 to NNNN have made. Later
versions must bring both to their own schema with every row unchanged, so nothing that is committed here is rebuilt.
Schemas 1 and 2 had words in a full-text table, which the code of that time filled. Up to schema 4 the text of a message
was a column of its row.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from recollect.core import archive, times, word_index
from recollect.core.compression.narrative import Statement
from recollect.core.language import passages
from recollect.recall.message_run import MessageRun, make_vector_run
from recollect.recall.segment_form import pack_segment
from recollect.recall.vectors import pack as pack_vectors
from recollect.storage import migrations
from recollect.storage.archive_blocks import pack
from recollect.storage.segments import SEGMENT_VERSION, Stretch, checksum_of
from recollect.storage.shipped_dictionary import learned_dictionary, shipped_dictionary
from recollect.storage.sqlite import SqliteDriver
from recollect.storage.topic_summary import pack_statements

HERE = Path(__file__).parent
DAY = 86_400_000_000
START = 1_767_225_600_000_000  # 2026-01-01
DIMENSIONS = 8
EMBEDDED = {1: 10, 2: 6}  # the seq up to which messages have vectors, by conversation
TALK = (
    ("user", "When does the report have to be ready?"),
    ("assistant", "On Thursday, 12:30. Shall I remind you?"),
    ("user", "متى موعد تسليم التَّقرير الشهريّ إلى الإدارة؟"),
    ("assistant", "يوم الخميس الساعة ١٢:٣٠ ظهرًا، إن شاء الله."),
    ("system", "Answer in the user's language.\n\nTwo lines; a 'quote', a \"double\" one and a \\ backslash."),
    ("tool", '{"temperature": 21.5, "city": "الرياض"}'),
    ("user", "東京の天気はどうですか。 Naïve café, STRASSE, straße, 😀"),
    ("assistant", "…"),
    ("user", "A long one: " + "memory " * 900),
    ("assistant", "Stored."),
)


def conversations() -> list[dict[str, Any]]:
    made = [
        {"key": 1, "person": "local", "name": "plain", "title": None, "tags": "[]", "zone": "UTC"},
        {
            "key": 2, "person": "سارة", "name": "تقرير", "title": "The monthly report", "tags": '["work","عمل"]',
            "zone": "Asia/Riyadh",
        },
        {"key": 3, "person": "local", "name": "empty", "title": "Nothing yet", "tags": "[]", "zone": "Europe/Berlin"},
    ]  # fmt: skip
    for row in made:
        moments = [one["at"] for one in messages() if one["conversation_key"] == row["key"]]
        first, last = (min(moments), max(moments)) if moments else (None, None)
        row |= {"created_at": START, "last_seq": len(moments), "messages": len(moments)}
        row |= {"first_at": first, "last_at": last}
    return made


def messages() -> list[dict[str, Any]]:
    made = []
    for number in range(2 * len(TALK)):
        conversation, seq = number // len(TALK) + 1, number % len(TALK) + 1
        role, content = TALK[seq - 1]
        made.append(
            {
                "key": number + 1, "conversation_key": conversation, "seq": seq, "id": f"golden-{number}",
                "role": role, "content": content, "at": START + number * DAY // 7,
                "source": {"assistant": "assistant", "tool": "tool"}.get(role, "typed"),
                "name": "سارة" if seq == 3 else None,
                "model_variant": "deep-dive" if seq == 2 else None,
                "tool_calls": '[{"id":"call-1","function":{"name":"weather","arguments":"{}"}}]' if seq == 4 else None,
                "tool_call_id": "call-1" if role == "tool" else None,
                "metadata": '{"device":"هاتف","n":[1,2.5,null,true]}' if seq % 3 == 0 else None,
                "importance": 0.75 if seq == 1 else None,
                "replaced": 1 if seq == 7 else 0,
            }
        )  # fmt: skip
    return made


def work_rows() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of tables that came with schema 2."""
    return {
        "message_tokens": [{"message_key": 1, "counter": "o200k_base", "tokens": 12}],
        "settings": [
            {"person": "سارة", "name": "worker_poll_seconds", "value": "2.5", "changed_at": START},
        ],
        "erasures": [
            {
                "id": "0198-golden", "owner": "ab" * 32, "kind": "message", "counts": '{"messages":1}', "at": START,
                "pending": 0,
            },
        ],
        "leases": [{"name": "conversation:1", "holder": "nobody", "until": START}],
    }  # fmt: skip


def recall_rows() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of tables that came with schema 3."""
    made: dict[str, list[dict[str, Any]]] = {
        "entries": [],
        "embedders": [
            {"key": 1, "name": "golden", "dimensions": DIMENSIONS, "passages": passages.VERSION, "since": START}
        ],
        "vectors": [],
        "recalls": [{"key": 1, "person": "سارة", "at": START, "metrics": '{"hits":1}'}],
    }
    for message in messages():
        place = {name: message[name] for name in ("conversation_key", "seq")}
        described = (message["name"], message["model_variant"])
        words = word_index.encode_row(message["content"], *described, role=message["role"])
        role = word_index.ROLE_NUMBERS[message["role"]]
        made["entries"].append(place | {"at": message["at"], "role": role, "words": words})
        if message["seq"] <= EMBEDDED[message["conversation_key"]]:
            pieces = len(passages.split(message["content"]))
            vectors = np.eye(DIMENSIONS, dtype=np.float32)[np.arange(pieces) % DIMENSIONS]
            made["vectors"].append(place | {"embedder_key": 1, "vectors": pack_vectors(vectors)})
    return made


def brief_rows() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of schema 4: two versions of a brief, of which the second ends an entry of the first."""
    body = '{"statements":[["The report is due on Thursday.",["golden-1"],1767225600000000,1.0]],"record":{},%s}'
    entry = (
        '{"kind":"fact","subject":"user","slot":"city","value":"%s","text":"lives in %s","trust":"typed",'
        '"sources":["golden-0"],"seq":1,"at":1767225600000000,"single":true}'
    )
    return {
        "briefs": [
            {
                "conversation_key": 2, "version": version, "through_seq": 4 * version, "messages": 4 * version,
                "tokens": 20, "created_at": START + version, "model": "golden",
                "body": body % '"dropped":0,"degraded":null',
            }
            for version in (1, 2)
        ],
        "brief_entries": [
            {
                "conversation_key": 2, "number": 1, "version": 1, "entry": entry % ("الرياض", "الرياض"),
                "ended_version": 2, "ended_at": START + DAY,
            },
            {
                "conversation_key": 2, "number": 2, "version": 2, "entry": entry % ("Berlin", "Berlin"),
                "ended_version": None, "ended_at": None,
            },
        ],
    }  # fmt: skip


def topic_rows() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of schema 5: some texts are in a block of a learned dictionary; one topic is merged."""
    archived = {one["key"]: one["content"] for one in messages() if one["conversation_key"] == 2 and one["seq"] <= 6}
    learned = learned_dictionary(1000, archive.train([TALK[place % 8][1] * 3 for place in range(400)], 2000))
    topic = {
        "conversation_key": 2, "created_at": START, "active_at": START + DAY, "accesses": 6, "embedder_key": 1,
        "sums": np.arange(DIMENSIONS, dtype=np.float16).tobytes(), "summary_seq": 6,
    }  # fmt: skip
    told = [Statement("The report is due on Thursday.", ("golden-11",), times.from_micros(START), 0.75)]
    return {
        "texts": [
            {"message_key": one["key"], "content": one["content"]} for one in messages() if one["key"] not in archived
        ],
        "dictionaries": [
            {
                "key": 1000, "person": "سارة", "created_at": START, "text_bytes": 70_000, "learned_from": "11 1 1",
                "body": archive.pack_dictionary(learned.body, shipped_dictionary()),
            }
        ],
        "blocks": [
            {
                "key": 1, "conversation_key": 2, "dictionary_key": 1000, "messages": len(archived),
                "text_bytes": sum(len(text.encode()) for text in archived.values()), "body": pack(archived, learned),
            }
        ],
        "archived": [{"message_key": key, "block_key": 1} for key in archived],
        "topics": [
            topic | {
                "key": 1, "id": "t-golden", "opened_seq": 1, "active_seq": 10, "messages": 8, "archived": 6,
                "title": "When does the report have to be ready?", "summary": pack_statements(told), "tags": '["عمل"]',
                "pinned": 1, "importance": 0.5, "block_key": 1,
            },
            topic | {
                "key": 2, "id": "t-merged", "opened_seq": 7, "active_seq": 8, "messages": 2, "archived": 0,
                "title": "東京の天気はどうですか。", "summary": None, "merged_into": 1, "merged_at": START + DAY,
            },
        ],
        "topic_messages": [
            {"conversation_key": 2, "seq": seq, "topic_key": 2 if seq in (7, 8) else 1} for seq in range(1, 11)
        ],
        "feedback": [{"conversation_key": 2, "seq": 2, "kind": "thumb", "value": 1.0, "at": START}],
    }  # fmt: skip


def people_rows() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of tables that came with schema 6."""
    body = '{"coding_style":"functional","languages":["Python"],"notes":"ملاحظات"}'
    return {
        "profiles": [{"person": "سارة", "body": body, "updated_at": START}],
        "consents": [{"person": "سارة", "granted": 1, "at": START}],
        "audit": [
            {
                "key": 1, "at": START, "person": "سارة", "actor": "library", "action": "profile_used",
                "conversation_key": 2, "details": '{"tokens":12}',
            },
        ],
        "api_keys": [
            {
                "id": "00112233445566ff", "hash": bytes(range(32)), "label": "laptop", "person": "سارة",
                "department": "water", "ministry": None, "clearances": '["secrets"]', "scopes": '["read","write"]',
                "created_at": START, "expires_at": START + DAY, "revoked_at": None,
            },
        ],
        "sessions": [
            {
                "hash": bytes(range(32, 64)), "key_id": "00112233445566ff", "created_at": START,
                "expires_at": START + DAY,
            },
        ],
        "requests": [{"person": "سارة", "id": "once", "fingerprint": bytes(32), "at": START}],
        "stops": [{"person": "سارة", "conversation": "تقرير", "at": START}],
    }  # fmt: skip


def erased_rows() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the table that came with schema 7."""
    return {"tombstones": [{"hash": bytes(range(16)), "erasure": "0198-golden", "salt": bytes(16), "at": START}]}


def segment_rows() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the table that came with schema 8: a segment of the first conversation."""
    rows = recall_rows()
    entries, vectors = (
        [row for row in rows[table] if row["conversation_key"] == 1] for table in ("entries", "vectors")
    )
    run = MessageRun.from_rows(entries)
    body = pack_segment(replace(run, vectors=make_vector_run(run, vectors, 1, DIMENSIONS)))
    segment = {
        "conversation_key": 1, "first_seq": 1, "last_seq": EMBEDDED[1], "version": SEGMENT_VERSION, "embedder_key": 1,
        "checksum": checksum_of(1, Stretch(0, EMBEDDED[1]), 1, body), "body": body,
    }  # fmt: skip
    return {"segments": [segment]}


def tables() -> dict[str, list[dict[str, Any]]]:
    described = [
        row | {
            "worked_seq": row["last_seq"], "words_version": word_index.VERSION,
            "embedder_key": 1 if row["key"] in EMBEDDED else None, "embedded_seq": EMBEDDED.get(row["key"], 0),
            "briefed_seq": row["last_seq"], "topiced_seq": 10 if row["key"] == 2 else 0,
            "folded_seq": 10 if row["key"] == 2 else 0, "active_topic": 1 if row["key"] == 2 else None,
            "packed_seq": EMBEDDED[1] if row["key"] == 1 else 0,
        }
        for row in conversations()
    ]  # fmt: skip
    stored = [{name: value for name, value in one.items() if name != "content"} for one in messages()]
    found = {"conversations": described, "messages": stored} | work_rows() | recall_rows() | brief_rows()
    return found | topic_rows() | people_rows() | erased_rows() | segment_rows()


def build_sqlite(version: int, target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "golden.db"
        driver = SqliteDriver(str(draft), migrations=migrations.load("sqlite")[:version])
        driver.open(START)
        driver.leave_wal()
        driver.close()
        connection = apsw.Connection(str(draft))
        with connection:
            for table, rows in tables().items():
                for row in rows:
                    names = ", ".join(row)
                    marks = ", ".join(f":{name}" for name in row)
                    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", row)  # noqa: S608
        connection.close()
        target.write_bytes(draft.read_bytes())


def build_postgres(target: Path) -> None:
    lines = []
    numbered = ("conversations", "messages", "embedders", "recalls", "dictionaries", "blocks", "topics", "audit")
    for table, rows in tables().items():
        forced = " OVERRIDING SYSTEM VALUE" if table in numbered else ""
        for row in rows:
            values = ", ".join(map(literal, row.values()))
            lines.append(f"INSERT INTO {table} ({', '.join(row)}){forced} VALUES ({values});")  # noqa: S608
    for table in numbered:
        lines.append(f"SELECT setval(pg_get_serial_sequence('{table}', 'key'), (SELECT max(key) FROM {table}));")  # noqa: S608
    target.write_text("\n".join(lines) + "\n", "utf-8")


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


if __name__ == "__main__":
    wanted = int(sys.argv[1])
    build_sqlite(wanted, HERE / f"schema_{wanted:04}.sqlite")
    build_postgres(HERE / f"schema_{wanted:04}.postgres.sql")
