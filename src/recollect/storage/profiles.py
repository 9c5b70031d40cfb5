"""Stores profiles and consent. A profile that is shown or used is read together with the consent, in one query."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from recollect.core import profile, times
from recollect.core.json_text import to_json
from recollect.core.models import JsonObject, Principal
from recollect.core.profile import Profile
from recollect.storage.audit import Act, write_audit
from recollect.storage.driver import RunInTransaction, Transaction


class ProfileStore:
    """The profiles and consents of the store. Every change is written to the audit log in the same transaction."""

    def __init__(self, read: RunInTransaction, write: RunInTransaction) -> None:
        self._read, self._write = read, write

    async def get(self, principal: Principal) -> Profile:
        """Return the profile as it may be used now: an empty one without consent."""
        return await self._read(lambda tx: read_usable_profile(tx, principal))

    async def change(self, principal: Principal, changes: JsonObject, *, actor: str, now: datetime) -> None:
        """Change the named fields of the profile. An empty profile is deleted."""

        def store_changes(tx: Transaction) -> None:
            moment = times.to_micros(now)
            tx.run("lock_profile", person=principal.person, now=moment)
            row = tx.one("stored_profile", person=principal.person)
            before = {} if row is None else json.loads(row["body"])
            after = profile.merge_changes(before, changes)
            if not after:
                tx.run("erase_rows_in_profiles", person=principal.person)
            elif after != before:
                tx.run("put_profile", person=principal.person, body=to_json(after), now=moment)
            if after == before:
                return
            changed = [name for name in profile.FIELDS if after.get(name) != before.get(name)]
            write_audit(tx, Act(principal, actor, "profile_changed", {"fields": changed}, now))

        await self._write(store_changes)

    async def import_profile(
        self, principal: Principal, fields: JsonObject, *, updated_at: datetime, actor: str, now: datetime
    ) -> bool:
        """Store a profile from a file, unless the person has one. Return False if they have a different one."""
        body = to_json(profile.merge_changes({}, fields))

        def insert_profile(tx: Transaction) -> bool:
            values = {"person": principal.person, "body": body, "now": times.to_micros(updated_at)}
            if tx.run("insert_profile", **values):
                details = {"fields": [name for name in profile.FIELDS if fields.get(name)], "by": "import"}
                write_audit(tx, Act(principal, actor, "profile_changed", details, now))
                return True
            row = tx.one("stored_profile", person=principal.person)
            return row is not None and row["body"] == body

        return await self._write(insert_profile)

    async def set_consent(self, principal: Principal, granted: bool, *, actor: str, now: datetime) -> None:
        """Store whether the person consents. When this returns, every later question in every process sees it."""

        def store_consent(tx: Transaction) -> None:
            moment = times.to_micros(now)
            if tx.run("put_consent", person=principal.person, granted=int(granted), now=moment):
                action = "consent_granted" if granted else "consent_revoked"
                write_audit(tx, Act(principal, actor, action, {}, now))

        await self._write(store_consent)


def read_usable_profile(tx: Transaction, principal: Principal) -> Profile:
    """Return the profile as it may be used now: an empty one without consent."""
    row = tx.one("get_profile", person=principal.person)
    if row is None or row["body"] is None:
        flags = row or {"granted": 0, "stored": 0}
        return Profile(consent=bool(flags["granted"]), stored=bool(flags["stored"]))
    return profile.from_stored(json.loads(row["body"]), updated_at=times.from_micros(row["updated_at"]))


def stored_values(body: str) -> Iterator[str]:
    """Yield the values of a stored profile in their stored spelling, so that files can be searched for them."""
    for value in json.loads(body).values():
        yield to_json(value)[1:-1]
