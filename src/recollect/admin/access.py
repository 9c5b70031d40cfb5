"""Access to a server: API keys and browser sessions, each for one principal with key scopes.

A token has 256 random bits and is shown once. Only its keyed hash is stored. Hashes are compared in constant time.

From the first key on, requests need one. Neither revoking the last key nor restoring an older backup changes that: only
the operator does, on the command line.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from recollect.admin.server_state import StoredMemory
from recollect.core import times
from recollect.core.errors import Conflict, Denied, InvalidInput, NotFound
from recollect.core.json_text import to_json
from recollect.core.models import Finding, JsonObject, Principal, Record
from recollect.core.text import check_identity
from recollect.storage.audit import LIBRARY
from recollect.storage.driver import Row

log = logging.getLogger(__name__)

ACT_AS: Final = "act_as"  # the key of an application, which names the person for whom it asks
KEY_SCOPES: Final = ("read", "write", "admin", ACT_AS)
TOKEN_PREFIX: Final = "rk"  # noqa: S105 - the public start of every token
_TOKEN: Final = re.compile(rf"{TOKEN_PREFIX}_([0-9a-f]{{16}})_[A-Za-z0-9_-]{{43}}")
LOCAL_KEY: Final = "local"  # key id of everybody on a server without keys; their rate is not limited
SECRET_DIGEST_BYTES: Final = 4  # enough to notice another secret, too few to guess one by
SECRET_CHECK_SECONDS: Final = 60.0  # between two looks for the reason of refused keys
MAX_KEY_DAYS: Final = 36_500
MAX_LABEL_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class Grant(Record):
    """The principal and key scopes of a request. `key` is the public id of the key, for logs and the audit."""

    principal: Principal
    scopes: tuple[str, ...]
    key: str
    csrf: str | None = None  # of a session: every changing request must send it back
    session: bytes | None = field(default=None, repr=False)  # hash of its cookie


@dataclass(frozen=True, slots=True)
class Key(Record):
    """A key as the operator sees it. It has a `token` only in the reply to its creation."""

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
    """Creates and checks the keys and sessions in the database of a memory."""

    def __init__(self, memory: StoredMemory) -> None:
        """Prepare the checks. Hashes are keyed with RECOLLECT_KEY_SECRET, else with a secret in the database."""
        self._rows, self._clock, self._principal = memory.store.server_state, memory.clock, memory.principal
        self._secret = memory.key_secret
        self._requires_keys = False  # once true, it is asked again only before a request is refused
        self._next_secret_check = 0.0  # seconds of the monotonic clock

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
        """Create a key. Return it with its token, which cannot be shown again."""
        scopes = _complete_scopes(scopes)
        if days is not None and not 0 < days <= MAX_KEY_DAYS:
            raise InvalidInput("invalid_days", f"A key is good for more than 0 and at most {MAX_KEY_DAYS:,} days.")
        if not isinstance(label, str) or len(label) > MAX_LABEL_CHARACTERS or "\x00" in label:
            raise InvalidInput("invalid_label", f"A label is text of at most {MAX_LABEL_CHARACTERS} characters.")
        now, public_id = self._clock.now(), secrets.token_hex(8)
        token = f"{TOKEN_PREFIX}_{public_id}_{secrets.token_urlsafe(32)}"
        row = {
            "id": public_id, "hash": await self._hash(token), "label": label,
            "person": check_identity(person, "person"),
            "department": None if department is None else check_identity(department, "department"),
            "ministry": None if ministry is None else check_identity(ministry, "ministry"),
            "clearances": to_json([check_identity(clearance, "clearance") for clearance in clearances]),
            "scopes": to_json([scope for scope in KEY_SCOPES if scope in scopes]), "created_at": times.to_micros(now),
            "expires_at": None if days is None else times.to_micros(now + timedelta(days=days)), "revoked_at": None,
        }  # fmt: skip
        digest = await self._secret_digest()
        if await self.accepts_no_key() or not await self._rows.add_key(row, secret_digest=digest):
            raise other_secret_error()
        self._requires_keys = True
        return _to_key(row, token)

    async def keys(self) -> list[Key]:
        """Return all keys that were ever created, oldest first."""
        return [_to_key(row) for row in await self._rows.keys()]

    async def revoke_key(self, id: str) -> None:
        """Revoke a key and end its sessions. Raise NotFound if there is none to revoke."""
        if not await self._rows.revoke_key(check_identity(id, "key"), now=self._clock.now()):
            raise NotFound("key_not_found", f"There is no key {id[:40]!r} that could be revoked.")

    async def protect_keys(self, grant: Grant) -> None:
        """Raise Denied if an application that acts for others would revoke keys by erasing all that a person has."""
        keys = [_to_key(row) for row in await self._rows.keys() if self._is_valid(row)]
        acts_for_others = any(key.id == grant.key and ACT_AS in key.scopes for key in keys)
        if acts_for_others and any(key.person == grant.principal.person for key in keys):
            reason = "This person has API keys, which would be revoked."
            raise Denied("person_has_keys", f"{reason} Only the operator or one of these keys may do that.")

    async def requires_keys(self, *, fresh: bool = False) -> bool:
        """Say whether requests need a key. The answer "no" is read from the database each time.

        With `fresh`, "yes" is read again too. Before that, a server goes on asking for keys, which is safe.
        """
        if fresh or not self._requires_keys:
            self._requires_keys = await self._rows.requires_keys()
        return self._requires_keys

    async def allow_keyless(self) -> None:
        """Let requests do without a key until the next one is created. Raise Conflict while there are valid keys."""
        if not await self._rows.allow_keyless(self._principal, actor=LIBRARY, now=self._clock.now()):
            raise Conflict("keys_in_use", "There are valid keys. Revoke them first: recollect keys list")

    async def verify(self, token: str) -> Grant | None:
        """Return the grant of a token; None if it is unknown, expired or revoked."""
        match = _TOKEN.fullmatch(token)
        row = await self._rows.key(match[1]) if match is not None else None
        expected = bytes(row["hash"]) if row is not None else bytes(32)
        is_same = hmac.compare_digest(await self._hash(token), expected)
        if row is not None and not is_same:
            await self._warn_of_other_secret()
        if row is None or not is_same or not self._is_valid(row):
            return None
        return _to_grant(row)

    async def is_admitted(self, key: str, session: bytes | None) -> bool:
        """Say whether a request with the key or session of a grant would still be admitted, whoever it is for.

        Long answers ask it while they are sent.
        """
        if key == LOCAL_KEY:
            return not await self.requires_keys()
        if session is not None:
            return await self._session_row(session) is not None
        row = await self._rows.key(key)
        return row is not None and self._is_valid(row)

    # The secret

    async def uses_other_secret(self) -> bool:
        """Say whether the keys were made with another secret than the one in use: then none of them is accepted."""
        expected = await self._expected_digest()
        return expected is not None and expected != await self._secret_digest()

    async def accepts_no_key(self) -> bool:
        """Say whether there are valid keys, but all of them were made with another secret."""
        return await self.uses_other_secret() and await self._rows.count_valid_keys(now=self._clock.now()) > 0

    async def examine(self) -> list[Finding]:
        """Return what `recollect doctor` says about keys. A database that never had any gets no finding."""
        if not await self.requires_keys(fresh=True):
            return []
        valid = await self._rows.count_valid_keys(now=self._clock.now())
        if valid and await self.uses_other_secret():
            fix = "set RECOLLECT_KEY_SECRET as it was when the keys were made"
            return [Finding("keys", "error", "the keys were made with another secret: none is accepted", fix)]
        if not valid:
            fix = "recollect keys create PERSON, or: recollect keys allow-keyless"
            return [Finding("keys", "warning", "the server asks for a key, and none is valid", fix)]
        return [Finding("keys", "ok", f"the server asks for a key; {valid} {'is' if valid == 1 else 'are'} valid")]

    async def _expected_digest(self) -> str | None:
        """Return the digest of the secret that the keys were made with; None if there are no keys yet.

        Older versions noted no digest: `recollect keys` then always used the stored secret.
        """
        noted = await self._rows.secret_digest()
        if noted is not None:
            return noted
        stored = await self._rows.stored_secret()
        has_keys = stored is not None and await self._rows.keys()
        return _secret_digest(stored) if stored is not None and has_keys else None

    async def _secret_digest(self) -> str:
        await self._hash("")  # reads or makes the stored secret, if that is the one in use
        return _secret_digest(self._secret or "")

    async def _warn_of_other_secret(self) -> None:
        """Log an error if the secret in use is the reason why a key is refused. Looks at most once a minute."""
        if time.monotonic() >= self._next_secret_check:
            self._next_secret_check = time.monotonic() + SECRET_CHECK_SECONDS
            if await self.uses_other_secret():
                log.error("a key was refused. %s", other_secret_error().message)

    # Sessions of browsers

    async def login(self, token: str, *, hours: float) -> tuple[str, Grant] | None:
        """Start a session for the holder of a token. Return its opaque cookie and its grant; None for a bad token."""
        grant = await self.verify(token)
        if grant is None:
            return None
        cookie, now = secrets.token_urlsafe(32), self._clock.now()
        hashed = await self._hash(cookie)
        await self._rows.add_session(hashed, grant.key, now=now, until=now + timedelta(hours=hours))
        return cookie, _to_grant(await self._rows.session(hashed) or {}, await self._csrf(cookie), hashed)

    async def session(self, cookie: str) -> Grant | None:
        """Return the grant of a session; None if it or its key is unknown, expired or revoked."""
        hashed = await self._hash(cookie)
        row = await self._session_row(hashed)
        return None if row is None else _to_grant(row, await self._csrf(cookie), hashed)

    async def _session_row(self, hashed: bytes) -> Row | None:
        """Return a session with its key, if both are valid."""
        row = await self._rows.session(hashed)
        if row is None or not self._is_valid(row) or row["session_expires_at"] <= times.to_micros(self._clock.now()):
            return None
        return row

    async def logout(self, cookie: str) -> None:
        """End a session."""
        await self._rows.end_session(await self._hash(cookie))

    async def _csrf(self, cookie: str) -> str:
        return (await self._hash(f"csrf {cookie}")).hex()

    async def keyed_hash(self, text: str) -> bytes:
        """Return a hash of a text that cannot be computed without the secret."""
        return await self._hash(text)

    def _is_valid(self, row: Row) -> bool:
        now = times.to_micros(self._clock.now())
        return row["revoked_at"] is None and (row["expires_at"] is None or row["expires_at"] > now)

    async def _hash(self, text: str) -> bytes:
        if self._secret is None:
            self._secret = await self._rows.secret(secrets.token_urlsafe(32), now=self._clock.now())
        return hmac.new(self._secret.encode(), text.encode("utf-8", "replace"), hashlib.sha256).digest()


def _complete_scopes(scopes: Sequence[str]) -> Sequence[str]:
    """Check the scopes of a new key. With `act_as` alone it may read and write, for whom it names.

    The same key may not manage the server: whoever takes it from the application could make keys of every kind.
    """
    if set(scopes) - set(KEY_SCOPES) or not scopes:
        raise InvalidInput("invalid_scope", f"A key has one or more of the scopes {', '.join(KEY_SCOPES)}.")
    if ACT_AS in scopes and "admin" in scopes:
        raise InvalidInput("invalid_scope", "A key with the scope act_as cannot have the scope admin.")
    return ("read", "write", ACT_AS) if set(scopes) == {ACT_AS} else scopes


def _to_key(row: Row, token: str | None = None) -> Key:
    moments = {
        name: None if row[name] is None else times.from_micros(row[name])
        for name in ("created_at", "expires_at", "revoked_at")
    }
    texts: JsonObject = {name: row[name] for name in ("id", "label", "person", "department", "ministry")}
    lists = {name: tuple(json.loads(row[name])) for name in ("clearances", "scopes")}
    return Key(**texts, **lists, **moments, token=token)  # type: ignore[arg-type]


def other_secret_error() -> Conflict:
    """Return the error for a process whose secret is not the one that the keys were made with."""
    return Conflict(
        "other_secret",
        "The keys of this database were made with another secret than the one in use, so none of them is accepted. Set "
        "RECOLLECT_KEY_SECRET as it was when they were made, or unset it if it was unset. To take another secret, "
        "revoke all keys and create new ones.",
    )


def _secret_digest(secret: str) -> str:
    return hmac.new(secret.encode(), b"secret of keys", hashlib.sha256).hexdigest()[: 2 * SECRET_DIGEST_BYTES]


def _to_grant(row: Row, csrf: str | None = None, session: bytes | None = None) -> Grant:
    clearances, scopes = json.loads(row["clearances"]), json.loads(row["scopes"])
    principal = Principal(row["person"], row["department"], row["ministry"], tuple(clearances))
    return Grant(principal, tuple(scopes), row["id"], csrf, session)
