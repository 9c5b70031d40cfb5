"""Stores what the processes of a server share: API keys, sessions, idempotency keys, stop marks, prompt sizes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from recollect.core import times
from recollect.core.models import Principal
from recollect.core.text import hash_name
from recollect.storage.audit import Act, write_audit
from recollect.storage.driver import Row, RunInTransaction, RunNamedInTransaction, Transaction

KEEP_REQUESTS_FOR: Final = timedelta(days=7)  # idempotency keys, stop marks and prompt sizes
# Names of rows of the table `settings` that belong to the whole database.
SECRET_NAME: Final = "key_secret"  # noqa: S105 - the name of a row
SECRET_DIGEST_NAME: Final = "key_secret_digest"  # noqa: S105 - the name of a row
KEYS_REQUIRED_NAME: Final = "keys_required"  # "true" from the first key on; "false" after the operator said so


class PromptSize(NamedTuple):
    """The tokens of the system prompt that a conversation was last asked with."""

    person: str
    conversation: str
    tokens: int
    at: datetime


def prompt_size_id(conversation: str) -> str:
    """Return the id of the row with a conversation's prompt size. It has a digest, not the name."""
    return f"prompt:{hash_name(conversation)}"


def idempotency_id(key: str) -> str:
    """Return the id of the row of an idempotency key. Clients choose the key, so it has a prefix of its own."""
    return f"key:{key}"


class ServerStateStore:
    """The shared state of server processes. Methods without a principal serve the operator, or find out who asks."""

    def __init__(self, read: RunNamedInTransaction, write: RunInTransaction) -> None:
        self._read, self._write = read, write

    # Keys: found by their public id. The key itself is stored as a keyed hash.

    async def secret(self, new_secret: str, *, now: datetime) -> str:
        """Return the stored secret that hashes are keyed with. Store `new_secret` if there is none."""

        def keep_first(tx: Transaction) -> str:
            tx.run("keep_secret", name=SECRET_NAME, value=new_secret, now=times.to_micros(now))
            return str((tx.one("get_secret", name=SECRET_NAME) or {})["value"])

        row: Row | None = await self._read(lambda tx: tx.one("get_secret", name=SECRET_NAME))
        return str(row["value"]) if row is not None else str(await self._write(keep_first))

    async def stored_secret(self) -> str | None:
        """Return the stored secret, if there is one."""
        row: Row | None = await self._read(lambda tx: tx.one("get_secret", name=SECRET_NAME))
        return None if row is None else str(row["value"])

    async def add_key(self, row: Row, *, secret_digest: str) -> bool:
        """Store a new key, and note that requests need one from now on.

        Return False, and store nothing, if valid keys were made with another secret than the one with this digest.
        """

        def add(tx: Transaction) -> bool:
            now = row["created_at"]
            noted = tx.one("get_secret", name=SECRET_DIGEST_NAME)
            if noted is not None and noted["value"] != secret_digest and count_valid_keys(tx, now):
                return False
            tx.run("insert_key", **row)
            for name, value in ((KEYS_REQUIRED_NAME, "true"), (SECRET_DIGEST_NAME, secret_digest)):
                tx.run("put_setting", person="", name=name, value=value, now=now)
            return True

        return bool(await self._write(add))

    async def secret_digest(self) -> str | None:
        """Return the digest of the secret that the keys were made with, if it was noted."""
        row: Row | None = await self._read(lambda tx: tx.one("get_secret", name=SECRET_DIGEST_NAME))
        return None if row is None else str(row["value"])

    async def count_valid_keys(self, *, now: datetime) -> int:
        """Return how many keys are neither revoked nor expired."""
        return await self._read(lambda tx: count_valid_keys(tx, times.to_micros(now)))

    async def keys(self) -> list[Row]:
        """Return all keys, oldest first, without their hashes."""
        rows: list[Row] = await self._read(lambda tx: tx.all("every_key"))
        return rows

    async def key(self, id: str) -> Row | None:
        """Return a key with its hash. It is cached until anything is written, so a revoked key is noticed at once."""
        return await self._read(lambda tx: tx.one("get_key", id=id), ("key", id))

    async def requires_keys(self) -> bool:
        """Say whether requests need a key: since the first one was made, until the operator says otherwise."""

        def read(tx: Transaction) -> bool:
            return bool((tx.one("keys_required") or {})["value"] != "false")

        return await self._read(read, ("keys required",))

    async def allow_keyless(self, principal: Principal, *, actor: str, now: datetime) -> bool:
        """Note that requests need no key, until the next one is made. Return False if there are valid keys.

        The audit log of `principal` says that it was done.
        """

        def note(tx: Transaction) -> bool:
            moment = times.to_micros(now)
            if count_valid_keys(tx, moment):
                return False
            tx.run("put_setting", person="", name=KEYS_REQUIRED_NAME, value="false", now=moment)
            write_audit(tx, Act(principal, actor, "keyless_allowed", {}, now))
            return True

        return bool(await self._write(note))

    async def revoke_key(self, id: str, *, now: datetime) -> bool:
        """Revoke a key and end its sessions. Return False if there is no such key, or it was revoked before."""

        def revoke(tx: Transaction) -> bool:
            tx.run("end_sessions_of", id=id)
            return bool(tx.run("revoke_key", id=id, now=times.to_micros(now)))

        return bool(await self._write(revoke))

    # Sessions

    async def add_session(self, hash: bytes, key: str, *, now: datetime, until: datetime) -> None:
        """Store a session of a key, by the hash of its cookie."""

        def insert_session(tx: Transaction) -> None:
            moment = times.to_micros(now)
            tx.run("insert_session", hash=hash, id=key, now=moment, until=times.to_micros(until))

        await self._write(insert_session)

    async def session(self, hash: bytes) -> Row | None:
        """Return a session together with its key."""
        row: Row | None = await self._read(lambda tx: tx.one("get_session", hash=hash))
        return row

    async def end_session(self, hash: bytes) -> None:
        """Delete a session."""
        await self._write(lambda tx: tx.run("end_session", hash=hash))

    async def delete_expired(self, *, now: datetime) -> None:
        """Delete expired sessions, idempotency keys and stop marks."""

        def delete_rows(tx: Transaction) -> None:
            before = times.to_micros(now - KEEP_REQUESTS_FOR)
            tx.run("forget_sessions", now=times.to_micros(now))
            tx.run("forget_requests", before=before)
            tx.run("forget_stops", before=before)

        await self._write(delete_rows)

    # Idempotency keys

    async def first_fingerprint(self, principal: Principal, key: str, fingerprint: bytes, *, now: datetime) -> bytes:
        """Return the fingerprint that an idempotency key was first used with; store this one if the key is new."""

        def keep_first(tx: Transaction) -> bytes:
            row_id, moment = idempotency_id(key), times.to_micros(now)
            tx.run("insert_request", person=principal.person, id=row_id, fingerprint=fingerprint, now=moment)
            row = tx.one("get_request", person=principal.person, id=row_id)
            return bytes(row["fingerprint"]) if row is not None else fingerprint

        return bytes(await self._write(keep_first))

    # Stop marks

    async def mark_stopped(self, principal: Principal, conversation_digest: str, *, now: datetime) -> None:
        """Store a stop mark. A digest of the name, so that a temporary conversation leaves its name nowhere."""

        def put_mark(tx: Transaction) -> None:
            tx.run("put_stop", person=principal.person, conversation=conversation_digest, now=times.to_micros(now))

        await self._write(put_mark)

    async def stops_since(self, since: datetime) -> list[tuple[str, str, datetime]]:
        """Return person, digest of the conversation and moment of every stop mark since a moment."""
        rows = await self._read(lambda tx: tx.all("stops_since", since=times.to_micros(since)))
        return [(row["person"], row["conversation"], times.from_micros(row["at"])) for row in rows]

    # Sizes of system prompts, in rows like those of idempotency keys: they run out alike

    async def save_prompt_sizes(self, sizes: Sequence[PromptSize]) -> list[PromptSize]:
        """Store the sizes whose conversations exist, and return these. The worker looks again where a size changed."""

        def put_sizes(tx: Transaction) -> list[PromptSize]:
            return [size for size in sizes if _put_prompt_size(tx, size)]

        return list(await self._write(put_sizes))

    async def prompt_tokens(self, principal: Principal, conversation: str) -> int:
        """Return the stored tokens of a conversation's system prompt; 0 if there are none."""
        row_id = prompt_size_id(conversation)
        row: Row | None = await self._read(lambda tx: tx.one("get_request", person=principal.person, id=row_id))
        return 0 if row is None else int.from_bytes(bytes(row["fingerprint"]))


def _put_prompt_size(tx: Transaction, size: PromptSize) -> bool:
    """Store a size under the lock of its conversation, so that none is stored after an erase. Say whether it was."""
    conversation = tx.one("lock_conversation", person=size.person, conversation=size.conversation)
    if conversation is None:
        return False
    row_id, tokens = prompt_size_id(size.conversation), size.tokens.to_bytes(8)
    before = tx.one("get_request", person=size.person, id=row_id)
    tx.run("put_prompt_size", person=size.person, id=row_id, tokens=tokens, now=times.to_micros(size.at))
    if before is None or bytes(before["fingerprint"]) != tokens:
        tx.run("rewind_brief", key=conversation["key"])
    return True


def count_valid_keys(tx: Transaction, now: int) -> int:
    """Return how many keys are neither revoked nor expired at a moment, in microseconds."""
    return int((tx.one("count_valid_keys", now=now) or {"n": 0})["n"])
