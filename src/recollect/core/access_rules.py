"""The access rules: one table says which principal may do what with which row.

Checks and SQL predicates are made from the table. Everything that is not in it is denied. A rule is a list of
conditions that must all hold. Conditions compare the principal with the row. The store itself sets a row's owner,
department and ministry when the row is written; they never come from metadata or text.

Today only `conversation` rows are stored, and only the person counts: every query binds `:person`. The four banks are
here so that their store is built on the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from recollect.core.errors import Denied
from recollect.core.models import Principal

SECRETS_CLEARANCE: Final = "secrets"


@dataclass(frozen=True, slots=True)
class RowOwner:
    """The owner of a row: the person who wrote it, and the department and ministry of that person at the time."""

    person: str
    department: str | None = None
    ministry: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of principal and row, as a function and as SQL.

    In `sql`, `{row}` is the alias of the table. Parameters are those of `sql_parameters`. NULL is equal to nothing.
    """

    name: str
    holds: Callable[[Principal, RowOwner], bool]
    sql: str


OWNER: Final = Condition("owner", lambda principal, row: row.person == principal.person, "{row}.person = :person")
SAME_DEPARTMENT: Final = Condition(
    "same department",
    lambda principal, row: row.department is not None and row.department == principal.department,
    "{row}.department = :department",
)
SAME_MINISTRY: Final = Condition(
    "same ministry",
    lambda principal, row: row.ministry is not None and row.ministry == principal.ministry,
    "{row}.ministry = :ministry",
)
CLEARED: Final = Condition(
    "cleared for secrets",
    lambda principal, row: SECRETS_CLEARANCE in principal.clearances,
    ":is_cleared <> 0",
)

OPERATIONS: Final = ("read", "write", "edit", "delete")
Rule = tuple[Condition, ...]
# Members read the bank of their department or ministry and add to it. Only the author changes or deletes a memory
# there, and only while still a member.
RULES: Final[Mapping[str, Mapping[str, Rule]]] = {
    "conversation": dict.fromkeys(OPERATIONS, (OWNER,)),
    "personal": dict.fromkeys(OPERATIONS, (OWNER,)),
    "departmental": {
        "read": (SAME_DEPARTMENT,),
        "write": (SAME_DEPARTMENT,),
        "edit": (SAME_DEPARTMENT, OWNER),
        "delete": (SAME_DEPARTMENT, OWNER),
    },
    "ministry": {
        "read": (SAME_MINISTRY,),
        "write": (SAME_MINISTRY,),
        "edit": (SAME_MINISTRY, OWNER),
        "delete": (SAME_MINISTRY, OWNER),
    },
    "secrets": dict.fromkeys(OPERATIONS, (OWNER, CLEARED)),
}


def may(principal: Principal, operation: str, kind: str, row: RowOwner) -> bool:
    """Say whether the principal may do this with a row of this kind. Unknown kinds and operations are denied."""
    rule = RULES.get(kind, {}).get(operation)
    return rule is not None and all(condition.holds(principal, row) for condition in rule)


def require(principal: Principal, operation: str, kind: str, row: RowOwner) -> None:
    """Raise Denied if the principal may not do this."""
    if not may(principal, operation, kind, row):
        raise Denied("access_denied", f"You may not {operation} this {kind} memory.")


def sql_predicate(operation: str, kind: str, *, row: str = "m") -> str:
    """Return a rule as an SQL condition. `row` is the alias of the table. Unknown kinds and operations are denied."""
    rule = RULES.get(kind, {}).get(operation)
    if rule is None:
        return "(1 = 0)"
    return "(" + " AND ".join(condition.sql.format(row=row) for condition in rule) + ")"


def sql_parameters(principal: Principal) -> dict[str, str | int | None]:
    """Return the parameters of the predicates. They come from the principal alone."""
    return {
        "person": principal.person,
        "department": principal.department,
        "ministry": principal.ministry,
        "is_cleared": int(SECRETS_CLEARANCE in principal.clearances),
    }
