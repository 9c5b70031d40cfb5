"""Profiles and consent in the store. What is shown or used is read together with the consent, in one query."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from recollect.core import profile, times
from recollect.core.drafts import to_json
from recollect.core.models import JsonObject, Principal
from recollect.core.profile import Profile
from recollect.storage.audit import Act, write_audit
from recollect.storage.driver import Run, Transaction


class Profiles:
    def __init__(self, read: Run, write: Run) -> None:
        self._read, self._write = read, write

    async def get(self, principal: Principal) -> Profile:
        """The profile as it may be used now: an empty one without consent."""
        return await self._read(lambda tx: usable_profile(tx, principal))

    async def change(self, principal: Principal, changes: JsonObject, *, actor: str, now: datetime) -> None:
        """Fields that are not named stay as they are. A profile with nothing in it is not kept."""

        def job(tx: Transaction) -> None:
            moment = times.to_micros(now)
            tx.run("lock_profile", person=principal.person, now=moment)
            row = tx.one("stored_profile", person=principal.person)
            before = {} if row is None else json.loads(row["body"])
            after = profile.merged(before, changes)
            if not after:
                tx.run("delete_profile", person=principal.person)
            elif after != before:
                tx.run("put_profile", person=principal.person, body=to_json(after), now=moment)
            if after == before:
                return
            changed = [name for name in profile.FIELDS if after.get(name) != before.get(name)]
            write_audit(tx, Act(principal, actor, "profile_changed", {"fields": changed}, now))

        await self._write(job)

    async def keep(
        self, principal: Principal, fields: JsonObject, *, updated_at: datetime, actor: str, now: datetime
    ) -> bool:
        """Store a profile that comes from elsewhere, unless there is one. False if that is another one."""
        body = to_json(profile.merged({}, fields))

        def job(tx: Transaction) -> bool:
            asked = {"person": principal.person, "body": body, "now": times.to_micros(updated_at)}
            if tx.run("keep_profile", **asked):
                details = {"fields": [name for name in profile.FIELDS if fields.get(name)], "by": "import"}
                write_audit(tx, Act(principal, actor, "profile_changed", details, now))
                return True
            row = tx.one("stored_profile", person=principal.person)
            return row is not None and row["body"] == body

        return await self._write(job)

    async def set_consent(self, principal: Principal, granted: bool, *, actor: str, now: datetime) -> None:
        """Durable when this returns, and seen by every later question, in whichever process."""

        def job(tx: Transaction) -> None:
            moment = times.to_micros(now)
            if tx.run("put_consent", person=principal.person, granted=int(granted), now=moment):
                action = "consent_granted" if granted else "consent_revoked"
                write_audit(tx, Act(principal, actor, action, {}, now))

        await self._write(job)


def usable_profile(tx: Transaction, principal: Principal) -> Profile:
    row = tx.one("get_profile", person=principal.person)
    if row is None or row["body"] is None:
        found = row or {"granted": 0, "stored": 0}
        return Profile(consent=bool(found["granted"]), stored=bool(found["stored"]))
    return profile.from_stored(json.loads(row["body"]), updated_at=times.from_micros(row["updated_at"]))


def pieces_of(body: str) -> Iterator[str]:
    """What stands in a stored profile, value by value, spelled as it is stored: to be looked for in the files."""
    for value in json.loads(body).values():
        yield to_json(value)[1:-1]
