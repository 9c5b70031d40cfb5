"""What servers share through the database: keys and sessions, which request an idempotency key stands for, stops."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from recollect.core import times
from recollect.core.models import Principal
from recollect.storage.driver import NamedRun, Row, Run, Transaction

KEPT: Final = timedelta(days=7)  # idempotency keys
SECRET: Final = "key_secret"  # noqa: S105 - the name of a row


class Serving:
    def __init__(self, read: NamedRun, write: Run) -> None:
        self._read, self._write = read, write

    # Keys: found by their public id; only a keyed hash of the rest is kept.

    async def secret(self, fresh: str, *, now: datetime) -> str:
        """What hashes are keyed with: the one that is stored, or this one from now on."""

        def job(tx: Transaction) -> str:
            tx.run("keep_secret", name=SECRET, value=fresh, now=times.to_micros(now))
            return str((tx.one("get_secret", name=SECRET) or {})["value"])

        found: Row | None = await self._read(lambda tx: tx.one("get_secret", name=SECRET))
        return str(found["value"]) if found is not None else str(await self._write(job))

    async def add_key(self, row: Row) -> None:
        await self._write(lambda tx: tx.run("insert_key", **row))

    async def keys(self) -> list[Row]:
        found: list[Row] = await self._read(lambda tx: tx.all("every_key"))
        return found

    async def key(self, id: str) -> Row | None:
        return await self._read(lambda tx: tx.one("get_key", id=id), ("key", id))

    async def has_keys(self) -> bool:
        return await self._read(lambda tx: tx.one("any_key")) is not None

    async def revoke_key(self, id: str, *, now: datetime) -> bool:
        """Its sessions end with it."""

        def job(tx: Transaction) -> bool:
            tx.run("end_sessions_of", id=id)
            return bool(tx.run("revoke_key", id=id, now=times.to_micros(now)))

        return bool(await self._write(job))

    # Sessions

    async def add_session(self, hash: bytes, key: str, *, now: datetime, until: datetime) -> None:
        def job(tx: Transaction) -> None:
            moment = times.to_micros(now)
            tx.run("insert_session", hash=hash, id=key, now=moment, until=times.to_micros(until))

        await self._write(job)

    async def session(self, hash: bytes) -> Row | None:
        """The session with its key."""
        found: Row | None = await self._read(lambda tx: tx.one("get_session", hash=hash))
        return found

    async def end_session(self, hash: bytes) -> None:
        await self._write(lambda tx: tx.run("end_session", hash=hash))

    async def tidy(self, *, now: datetime) -> None:
        """What is over: sessions, old idempotency keys, stops that nobody can be waiting for."""

        def job(tx: Transaction) -> None:
            before = times.to_micros(now - KEPT)
            tx.run("forget_sessions", now=times.to_micros(now))
            tx.run("forget_requests", before=before)
            tx.run("forget_stops", before=before)

        await self._write(job)

    # Idempotency

    async def first_use(self, principal: Principal, id: str, fingerprint: bytes, *, now: datetime) -> bytes:
        """What the key was first used for, which is this if it is new."""

        def job(tx: Transaction) -> bytes:
            moment = times.to_micros(now)
            tx.run("insert_request", person=principal.person, id=id, fingerprint=fingerprint, now=moment)
            row = tx.one("get_request", person=principal.person, id=id)
            return bytes(row["fingerprint"]) if row is not None else fingerprint

        return bytes(await self._write(job))

    # Stops

    async def stop(self, principal: Principal, conversation: str, *, now: datetime) -> None:
        """The conversation is given by a digest: one that is not stored leaves no name here either."""

        def job(tx: Transaction) -> None:
            tx.run("put_stop", person=principal.person, conversation=conversation, now=times.to_micros(now))

        await self._write(job)

    async def stops(self, *, since: datetime) -> list[tuple[str, str, datetime]]:
        """Whose answers in which conversations somebody wanted stopped since then, and when."""
        rows = await self._read(lambda tx: tx.all("stops_since", since=times.to_micros(since)))
        return [(row["person"], row["conversation"], times.from_micros(row["at"])) for row in rows]
