"""Who may ask a server: API keys and the sessions of browsers, each standing for a principal with scopes.

A key is 256 random bits, shown once. What is stored is its keyed hash; comparing takes the same time whatever differs.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from recollect.core import times
from recollect.core.drafts import to_json
from recollect.core.errors import InvalidInput, NotFound
from recollect.core.models import JsonObject, Principal, Record
from recollect.core.protocols import Clock
from recollect.core.text import identity
from recollect.storage.driver import Row
from recollect.storage.store import SqlStore

SCOPES: Final = ("read", "write", "admin")
PREFIX: Final = "rk"
_TOKEN: Final = re.compile(rf"{PREFIX}_([0-9a-f]{{16}})_[A-Za-z0-9_-]{{43}}")
LOOK: Final = 0.5  # seconds between looks whether there are keys by now


@dataclass(frozen=True, slots=True)
class Grant(Record):
    """What a request may do, and as whom. `key` is the public id of the key, for logs and the audit."""

    principal: Principal
    scopes: tuple[str, ...]
    key: str
    csrf: str | None = None  # of a session: must come back with whatever changes something


@dataclass(frozen=True, slots=True)
class Key(Record):
    """A key as the operator sees it. `token` is there only when it was just made."""

    id: str
    label: str
    person: str
    department: str | None
    ministry: str | None
    clearances: tuple[str, ...]
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    token: str | None = None


class Access:
    def __init__(self, store: SqlStore, clock: Clock, *, secret: str | None = None) -> None:
        """Hashes are keyed with `secret`, or else with one that is kept in the database."""
        self._serving, self._clock, self._secret = store.serving, clock, secret
        self._asks, self._look_again = False, 0.0

    # Keys

    async def create_key(
        self,
        person: str,
        *,
        label: str = "",
        department: str | None = None,
        ministry: str | None = None,
        clearances: Sequence[str] = (),
        scopes: Sequence[str] = ("read", "write"),
        days: float | None = None,
    ) -> Key:
        """A new key, with its token, which nobody can show again."""
        unknown = set(scopes) - set(SCOPES)
        if unknown or not scopes:
            raise InvalidInput("invalid_scope", f"A key has one or more of the scopes {', '.join(SCOPES)}.")
        if days is not None and not 0 < days <= 36_500:
            raise InvalidInput("invalid_days", "A key is good for more than 0 days.")
        if not isinstance(label, str) or len(label) > 200 or "\x00" in label:
            raise InvalidInput("invalid_label", "A label is text of at most 200 characters.")
        now, public = self._clock.now(), secrets.token_hex(8)
        token = f"{PREFIX}_{public}_{secrets.token_urlsafe(32)}"
        row = {
            "id": public, "hash": await self._hash(token), "label": label,
            "person": identity(person, "person"),
            "department": None if department is None else identity(department, "department"),
            "ministry": None if ministry is None else identity(ministry, "ministry"),
            "clearances": to_json([identity(one, "clearance") for one in clearances]),
            "scopes": to_json([one for one in SCOPES if one in scopes]), "created_at": times.to_micros(now),
            "expires_at": None if days is None else times.to_micros(now + timedelta(days=days)), "revoked_at": None,
        }  # fmt: skip
        await self._serving.add_key(row)
        self._asks = True
        return _key(row, token)

    async def keys(self) -> list[Key]:
        """All keys there ever were, oldest first."""
        return [_key(row) for row in await self._serving.keys()]

    async def revoke_key(self, id: str) -> None:
        """From now on nobody gets in by it, nor by its sessions."""
        if not await self._serving.revoke_key(identity(id, "key"), now=self._clock.now()):
            raise NotFound("key_not_found", f"There is no key {id[:40]!r} that could be revoked.")

    async def has_keys(self) -> bool:
        """Whether there ever was one: revoking the last does not open the door. One that is made elsewhere is noticed
        within a moment."""
        if not self._asks and time.monotonic() >= self._look_again:
            self._asks = await self._serving.has_keys()
            self._look_again = time.monotonic() + LOOK
        return self._asks

    async def verify(self, token: str) -> Grant | None:
        """What a token is good for, if anything."""
        found = _TOKEN.fullmatch(token)
        row = await self._serving.key(found[1]) if found is not None else None
        expected = bytes(row["hash"]) if row is not None else bytes(32)
        same = hmac.compare_digest(await self._hash(token), expected)
        if row is None or not same or not self._is_good(row):
            return None
        return _grant(row)

    # Sessions of browsers

    async def login(self, token: str, *, hours: float) -> tuple[str, Grant] | None:
        """A session for whoever shows a key: an opaque cookie."""
        grant = await self.verify(token)
        if grant is None:
            return None
        cookie, now = secrets.token_urlsafe(32), self._clock.now()
        hashed = await self._hash(cookie)
        await self._serving.add_session(hashed, grant.key, now=now, until=now + timedelta(hours=hours))
        return cookie, _grant(await self._serving.session(hashed) or {}, await self._csrf(cookie))

    async def session(self, cookie: str) -> Grant | None:
        row = await self._serving.session(await self._hash(cookie))
        if row is None or not self._is_good(row) or row["session_expires_at"] <= times.to_micros(self._clock.now()):
            return None
        return _grant(row, await self._csrf(cookie))

    async def logout(self, cookie: str) -> None:
        await self._serving.end_session(await self._hash(cookie))

    async def _csrf(self, cookie: str) -> str:
        return (await self._hash(f"csrf {cookie}")).hex()

    async def keyed(self, text: str) -> bytes:
        """A hash that says nothing to who has only the database's rows of it."""
        return await self._hash(text)

    def _is_good(self, row: Row) -> bool:
        now = times.to_micros(self._clock.now())
        return row["revoked_at"] is None and (row["expires_at"] is None or row["expires_at"] > now)

    async def _hash(self, text: str) -> bytes:
        if self._secret is None:
            self._secret = await self._serving.secret(secrets.token_urlsafe(32), now=self._clock.now())
        return hmac.new(self._secret.encode(), text.encode("utf-8", "replace"), hashlib.sha256).digest()


def _key(row: Row, token: str | None = None) -> Key:
    moments = {
        name: None if row[name] is None else times.from_micros(row[name])
        for name in ("created_at", "expires_at", "revoked_at")
    }
    texts: JsonObject = {name: row[name] for name in ("id", "label", "person", "department", "ministry")}
    lists = {name: tuple(json.loads(row[name])) for name in ("clearances", "scopes")}
    return Key(**texts, **lists, **moments, token=token)  # type: ignore[arg-type]


def _grant(row: Row, csrf: str | None = None) -> Grant:
    clearances, scopes = json.loads(row["clearances"]), json.loads(row["scopes"])
    who = Principal(row["person"], row["department"], row["ministry"], tuple(clearances))
    return Grant(who, tuple(scopes), row["id"], csrf)
