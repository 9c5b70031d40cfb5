"""Acting for others: how a key of an application names the person for whom it asks.

A key with the scope `act_as` is for an application with many end users. It names one of them with each request and then
has that person's memory, and nothing else: no department, no ministry, no clearances, no right to manage the server. A
key without the scope is its own person's, whatever a request says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from recollect.admin.access import ACT_AS, LOCAL_KEY, Grant
from recollect.core.models import Principal
from recollect.core.text import check_identity

_SCOPES_FOR_OTHERS: Final = ("read", "write")


def act_as(grant: Grant, person: str) -> Grant:
    """Return the grant for a named person; the same grant if it may not act for others.

    Sessions of browsers may not. Raise InvalidInput for a name that no person can have. An empty name is refused, so
    that an application's nobody is not the application itself; on a server without keys it is as none.
    """
    if ACT_AS not in grant.scopes or grant.csrf is not None:
        return grant
    if grant.key == LOCAL_KEY and not person.strip():
        return grant
    principal = Principal(check_identity(person, "person"))
    return replace(
        grant, principal=principal, scopes=tuple(scope for scope in grant.scopes if scope in _SCOPES_FOR_OTHERS)
    )
