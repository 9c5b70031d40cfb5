"""Who may do what: the golden table of roles, banks and operations, and the same answers from SQL."""

from __future__ import annotations

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect import Denied, Principal
from recollect.core import access_rules
from recollect.core.access_rules import OPERATIONS, RULES, RowOwner, may, sql_parameters, sql_predicate

ROW = RowOwner("sara", "water", "environment")
ROLES = {
    "author": Principal("sara", "water", "environment"),
    "author with clearance": Principal("sara", "water", "environment", ("secrets",)),
    "author who moved to another ministry": Principal("sara", "roads", "transport"),
    "colleague": Principal("omar", "water", "environment"),
    "colleague with clearance": Principal("omar", "water", "environment", ("secrets",)),
    "same ministry": Principal("huda", "climate", "environment"),
    "other ministry": Principal("lina", "roads", "transport", ("secrets",)),
    "nobody's member": Principal("ziad"),
}
# What each role may do with Sara's row: r(ead), w(rite), e(dit), d(elete).
GOLDEN = {
    "conversation": ("rwed", "rwed", "rwed", "", "", "", "", ""),
    "personal": ("rwed", "rwed", "rwed", "", "", "", "", ""),
    "departmental": ("rwed", "rwed", "", "rw", "rw", "", "", ""),
    "ministry": ("rwed", "rwed", "", "rw", "rw", "rw", "", ""),
    "secrets": ("", "rwed", "", "", "", "", "", ""),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_the_golden_table_holds(kind: str) -> None:
    allowed = {role: "".join(op[0] for op in OPERATIONS if may(who, op, kind, ROW)) for role, who in ROLES.items()}
    assert allowed == dict(zip(ROLES, GOLDEN[kind], strict=True))


def test_every_kind_and_operation_is_in_the_golden_table() -> None:
    assert set(RULES) == set(GOLDEN)
    assert all(set(rules) == set(OPERATIONS) and all(rules.values()) for rules in RULES.values())


@pytest.mark.parametrize(("operation", "kind"), [("read", "everything"), ("own", "personal"), ("", ""), ("read", "")])
def test_what_is_not_in_the_table_is_denied(operation: str, kind: str) -> None:
    owner = ROLES["author with clearance"]
    assert not may(owner, operation, kind, ROW)
    assert sql_predicate(operation, kind) == "(1 = 0)"
    with pytest.raises(Denied):
        access_rules.require(owner, operation, kind, ROW)


def test_having_no_department_is_not_a_department() -> None:
    row = RowOwner("sara")
    assert not may(Principal("omar"), "read", "departmental", row)
    assert not may(Principal("omar"), "read", "ministry", row)


names = st.sampled_from(["", "a", "b", "A", "a ", "ä", "' OR 1=1 --"])
maybe = st.none() | names
principals = st.builds(Principal, names, maybe, maybe, st.lists(st.sampled_from(["secrets", "x"])).map(tuple))


@given(
    principals, st.builds(RowOwner, names, maybe, maybe), st.sampled_from(OPERATIONS), st.sampled_from(sorted(RULES))
)
def test_sql_gives_the_same_answers(principal: Principal, row: RowOwner, operation: str, kind: str) -> None:
    connection = apsw.Connection(":memory:")
    table = "(SELECT :row_person AS person, :row_department AS department, :row_ministry AS ministry) m"
    owner = {"row_person": row.person, "row_department": row.department, "row_ministry": row.ministry}
    query = f"SELECT count(*) FROM {table} WHERE {sql_predicate(operation, kind)}"  # noqa: S608 - our own predicate
    (count,) = connection.execute(query, owner | sql_parameters(principal)).fetchone()
    assert bool(count) == may(principal, operation, kind, row)
