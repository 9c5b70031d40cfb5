"""Keys and sessions: which tokens are accepted, which are not, and what the database holds of them."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner

from recollect.admin import access as access_module
from recollect.admin.access import Access
from recollect.cli import app
from recollect.core.errors import Conflict, InvalidInput, NotFound
from recollect.core.models import OPERATOR
from recollect.memory import AsyncMemory
from recollect.server.app import ServerOptions
from recollect.server.launch import check_and_bind
from recollect.testing import FakeClock, FakeEmbedder
from support.serving import make_server, read_all_bytes
from support.tables import ask

T = TypeVar("T")
With = Callable[[Callable[[Access, AsyncMemory], Awaitable[T]]], T]


@pytest.fixture
def with_access(location: str, clock: FakeClock) -> With[Any]:
    """Return a function that runs a coroutine with the access of the test's database."""

    def run(act: Callable[[Access, AsyncMemory], Awaitable[Any]]) -> Any:
        async def opened() -> Any:
            async with AsyncMemory(location, embedder=FakeEmbedder(), clock=clock, worker=False) as memory:
                return await act(Access(memory), memory)

        return asyncio.run(opened())

    return run


def test_a_key_acts_as_its_person_and_its_token_is_shown_only_when_it_is_created(with_access: With[Any]) -> None:
    async def act(access: Access, _: AsyncMemory) -> None:
        assert not await access.requires_keys()
        key = await access.create_key(
            "sara", label="phone", department="water", ministry="env", clearances=["secrets"], scopes=["write", "read"]
        )
        assert key.token is not None
        assert len(key.token.split("_", 2)[2]) >= 43  # 256 bits
        grant = await access.verify(key.token)
        assert grant is not None
        who = grant.principal
        assert (who.person, who.department, who.ministry, who.clearances) == ("sara", "water", "env", ("secrets",))
        assert grant.scopes == ("read", "write")
        assert grant.key == key.id
        (listed,) = await access.keys()
        assert listed.token is None
        assert (listed.id, listed.label) == (key.id, "phone")

    with_access(act)


def test_every_key_has_a_different_token(with_access: With[Any]) -> None:
    async def act(access: Access, _: AsyncMemory) -> None:
        tokens = [(await access.create_key("sara")).token for _ in range(20)]
        assert len(set(tokens)) == 20

    with_access(act)


CHANGED_TOKENS: list[Callable[[str], str]] = [
    lambda token: "", lambda token: "rk", lambda token: "rk__", lambda token: token[:-1], lambda token: token + "A",
    lambda token: token.upper(), lambda token: token.replace("rk_", "rk_ "), lambda token: token.split("_", 2)[2],
    lambda token: "sk" + token[2:], lambda token: token[:10] + "é" + token[11:], lambda token: "rk_%_x",
    lambda token: "rk_' OR 1=1 --_x", lambda token: "x" * 100_000, lambda token: "rk_" + "x" * 100_000 + "_y",
]  # fmt: skip


def test_any_other_text_than_the_token_is_refused(with_access: With[Any]) -> None:
    async def act(access: Access, _: AsyncMemory) -> None:
        token = (await access.create_key("sara")).token
        for change in CHANGED_TOKENS:
            assert await access.verify(change(token)) is None

    with_access(act)


def test_a_token_with_a_nul_is_refused_and_breaks_nothing(with_access: With[Any]) -> None:
    async def act(access: Access, _: AsyncMemory) -> None:
        await access.create_key("sara")
        assert await access.verify("rk_\x00_x") is None
        assert await access.login("rk_\x00_x", hours=1) is None

    with_access(act)


def test_the_secret_of_one_key_is_refused_with_the_id_of_another(with_access: With[Any]) -> None:
    async def act(access: Access, _: AsyncMemory) -> None:
        sara, omar = (await access.create_key("sara")).token, (await access.create_key("omar")).token
        crossed = "_".join(["rk", sara.split("_", 2)[1], omar.split("_", 2)[2]])
        assert await access.verify(crossed) is None

    with_access(act)


def test_tokens_are_compared_in_constant_time_whether_the_key_is_known_or_not(
    with_access: With[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append((len(left), len(right)))
        return hmac.compare_digest(left, right)

    class Spied:
        compare_digest = staticmethod(compare)
        new = staticmethod(hmac.new)

    async def act(access: Access, _: AsyncMemory) -> None:
        token = (await access.create_key("sara")).token
        monkeypatch.setattr(access_module, "hmac", Spied)
        for shown in (token, token[:-1] + "-", "rk_unknown_secret", "nothing"):
            await access.verify(shown)

    with_access(act)
    assert compared == [(32, 32)] * 4


def test_a_revoked_key_is_refused_at_once_also_by_another_process(location: str, with_access: With[Any]) -> None:
    async def act(access: Access, memory: AsyncMemory) -> None:
        key = await access.create_key("sara")
        async with AsyncMemory(location, embedder=FakeEmbedder(), clock=memory.clock, worker=False) as other:
            elsewhere = Access(other)
            assert await elsewhere.verify(key.token) is not None
            await access.revoke_key(key.id)
            assert await access.verify(key.token) is None
            assert await elsewhere.verify(key.token) is None
            assert await elsewhere.requires_keys(), "revoking the last key must not admit everybody"
        with pytest.raises(NotFound):
            await access.revoke_key(key.id)
        with pytest.raises(NotFound):
            await access.revoke_key("unknown")

    with_access(act)


def test_a_key_and_its_sessions_are_accepted_until_the_moment_it_expires(
    clock: FakeClock, with_access: With[Any]
) -> None:
    async def act(access: Access, _: AsyncMemory) -> None:
        token = (await access.create_key("sara", days=1)).token
        cookie, _grant = await access.login(token, hours=100)
        clock.advance(timedelta(days=1) - timedelta(microseconds=1))
        assert await access.verify(token) is not None
        assert await access.session(cookie) is not None
        clock.advance(timedelta(microseconds=1))
        assert await access.verify(token) is None
        assert await access.session(cookie) is None
        assert await access.login(token, hours=1) is None

    with_access(act)


def test_a_session_ends_after_its_hours_at_logout_and_with_its_key(clock: FakeClock, with_access: With[Any]) -> None:
    async def act(access: Access, _: AsyncMemory) -> None:
        key = await access.create_key("sara")
        first, grant = await access.login(key.token, hours=1)
        second, _grant = await access.login(key.token, hours=5)
        third, _grant = await access.login(key.token, hours=5)
        assert grant.csrf
        assert (await access.session(first)).csrf == grant.csrf
        assert (await access.session(second)).csrf != grant.csrf
        clock.advance(timedelta(hours=1))
        assert await access.session(first) is None
        await access.logout(second)
        assert await access.session(second) is None
        assert (await access.session(third)).principal.person == "sara"
        await access.revoke_key(key.id)
        assert await access.session(third) is None

    with_access(act)


def test_a_cookie_is_no_key_and_a_key_is_no_cookie(with_access: With[Any]) -> None:
    async def act(access: Access, _: AsyncMemory) -> None:
        token = (await access.create_key("sara")).token
        cookie, _grant = await access.login(token, hours=1)
        assert await access.verify(cookie) is None
        assert await access.session(token) is None
        assert await access.login(cookie, hours=1) is None

    with_access(act)


def test_neither_tokens_nor_cookies_nor_csrf_tokens_are_in_the_database(location: str, with_access: With[Any]) -> None:
    secrets: list[str] = []

    async def act(access: Access, _: AsyncMemory) -> None:
        for person in ("sara", "omar"):
            token = (await access.create_key(person)).token
            cookie, grant = await access.login(token, hours=1)
            secrets.extend([token, token.split("_", 2)[2], cookie, grant.csrf])

    with_access(act)
    content = read_all_bytes(location)
    assert b"sara" in content
    for secret in secrets:
        assert secret.encode() not in content
        assert secret.encode().hex().encode() not in content


def test_hashes_are_keyed_so_that_a_stolen_table_alone_admits_nobody(
    with_access: With[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def create(access: Access, _: AsyncMemory) -> str:
        return (await access.create_key("sara")).token or ""

    async def verify(access: Access, _: AsyncMemory) -> Any:
        return await access.verify(token)

    token = with_access(create)
    assert with_access(verify) is not None
    monkeypatch.setenv("RECOLLECT_KEY_SECRET", "another")
    assert with_access(verify) is None


def test_processes_that_start_at_once_hash_with_the_same_secret(with_access: With[Any]) -> None:
    async def act(_: Access, memory: AsyncMemory) -> None:
        accesses = [Access(memory) for _ in range(8)]
        keys = await asyncio.gather(*(access.create_key(f"person{index}") for index, access in enumerate(accesses)))
        for access in accesses:
            for key in keys:
                assert await access.verify(key.token) is not None

    with_access(act)


INVALID_KEYS: list[dict[str, Any]] = [
    {"scopes": []}, {"scopes": ["root"]}, {"days": 0}, {"days": -1}, {"days": float("nan")}, {"label": "x" * 201},
    {"label": "\x00"}, {"person": ""}, {"person": "\x00"}, {"department": ""}, {"clearances": [""]},
]  # fmt: skip


def test_a_key_with_invalid_fields_is_not_created(with_access: With[Any]) -> None:
    async def act(access: Access, _: AsyncMemory) -> None:
        for invalid in INVALID_KEYS:
            fields = {"person": "sara"} | invalid
            with pytest.raises(InvalidInput):
                await access.create_key(fields.pop("person"), **fields)
        assert not await access.requires_keys()

    with_access(act)


def test_keys_survive_a_backup_and_its_restore_on_either_database(location: str, tmp_path: Path) -> None:
    """Those that came after the backup survive too: keys are the operator's, and no part of what was said."""

    async def act() -> None:
        async with AsyncMemory(location, worker=False, embedder=FakeEmbedder()) as memory:
            token = (await Access(memory).create_key("sara")).token or ""
            await memory.backup(tmp_path / "copy.db")
            later = await Access(memory).create_key("omar")
            await memory.restore(tmp_path / "copy.db")
            access = Access(memory)
            grant = await access.verify(token)
            assert grant is not None and grant.principal.person == "sara"
            assert await access.verify(later.token or "") is not None

    asyncio.run(act())


# Once there were keys, requests need one


def _delete_all_keys(location: str) -> None:
    """Delete the rows of all keys, as a restore of a backup from before the first key does."""
    ask(location, "DELETE FROM api_keys")


def test_a_database_that_lost_its_keys_goes_on_asking_for_one_in_every_process_old_or_new(
    location: str, with_access: With[Any]
) -> None:
    async def act(access: Access, memory: AsyncMemory) -> None:
        await access.create_key("sara")
        async with AsyncMemory(location, embedder=FakeEmbedder(), worker=False) as other:
            running = Access(other)
            assert await running.requires_keys()
            _delete_all_keys(location)
            assert await access.keys() == []
            for one in (access, running, Access(memory), Access(other)):
                assert await one.requires_keys()
                assert await one.requires_keys(fresh=True)

    with_access(act)


def test_a_database_whose_keys_an_older_version_made_goes_on_asking_too(location: str, with_access: With[Any]) -> None:
    """Older versions left no note beside the keys. The first start of this one writes it."""

    async def create(access: Access, memory: AsyncMemory) -> None:
        await access.create_key("sara")
        await memory.store.change_settings(OPERATOR, {"keys_required": None}, now=memory.clock.now())
        assert await Access(memory).requires_keys()

    async def lose(_: Access, memory: AsyncMemory) -> None:
        _delete_all_keys(location)
        assert await Access(memory).requires_keys()

    with_access(create)
    with_access(lose)


def test_a_process_without_keys_notices_the_first_one_at_its_next_question(
    location: str, with_access: With[Any]
) -> None:
    async def act(access: Access, _: AsyncMemory) -> None:
        async with AsyncMemory(location, embedder=FakeEmbedder(), worker=False) as other:
            elsewhere = Access(other)
            assert not await elsewhere.requires_keys()
            await access.create_key("sara")
            assert await elsewhere.requires_keys()

    with_access(act)


def test_only_the_operator_ends_it_when_no_key_is_valid_and_the_audit_log_says_so(with_access: With[Any]) -> None:
    async def act(access: Access, memory: AsyncMemory) -> None:
        key = await access.create_key("sara")
        with pytest.raises(Conflict) as refused:
            await access.allow_keyless()
        assert refused.value.code == "keys_in_use"
        assert await access.requires_keys(fresh=True)
        await access.revoke_key(key.id)
        await access.allow_keyless()
        assert not await access.requires_keys(fresh=True)
        assert not await Access(memory).requires_keys()
        assert [entry.action for entry in await memory.audit()] == ["keyless_allowed"]
        await access.create_key("omar")
        assert await Access(memory).requires_keys()

    with_access(act)


# The secret


def test_keys_of_the_command_line_and_of_a_server_with_a_secret_are_good_for_each_other(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_KEY_SECRET", "a secret of the operator")
    made = CliRunner().invoke(app, ["keys", "create", "sara", "--db", db])
    assert made.exit_code == 0, made.output
    token = made.stdout.strip().splitlines()[-1]
    with make_server(db) as server:
        assert server.new_client(token).get("/api/v1/conversations").status_code == 200
        assert server.new_client().get("/api/v1/conversations").status_code == 401
    assert b"a secret of the operator" not in read_all_bytes(db)


def test_a_secret_that_is_set_after_the_keys_were_made_is_named_as_the_reason_everywhere(
    location: str, with_access: With[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def create(access: Access, _: AsyncMemory) -> Any:
        return await access.create_key("sara")

    async def look(access: Access, memory: AsyncMemory) -> None:
        assert await access.verify(key.token) is None
        with pytest.raises(Conflict) as refused:
            await access.create_key("omar")
        assert refused.value.code == "other_secret"
        (finding,) = [finding for finding in await memory.check() if finding.name == "keys"]
        assert finding.state == "error"
        assert "another secret" in finding.detail

    key = with_access(create)
    monkeypatch.setenv("RECOLLECT_KEY_SECRET", "another")
    with_access(look)
    assert "made with another secret" in caplog.text
    with pytest.raises(Conflict) as refused:
        asyncio.run(check_and_bind(ServerOptions(db=location, port=0)))
    assert refused.value.code == "other_secret"
    monkeypatch.delenv("RECOLLECT_KEY_SECRET")
    bound, has_keys = asyncio.run(check_and_bind(ServerOptions(db=location, port=0)))
    bound.close()
    assert has_keys


def test_a_secret_beside_keys_of_an_older_version_is_named_as_the_reason_too(
    with_access: With[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def create(access: Access, memory: AsyncMemory) -> None:
        await access.create_key("sara")
        await memory.store.change_settings(OPERATOR, {"key_secret_digest": None}, now=memory.clock.now())
        assert not await access.accepts_no_key()

    async def look(access: Access, _: AsyncMemory) -> bool:
        return await access.accepts_no_key()

    with_access(create)
    monkeypatch.setenv("RECOLLECT_KEY_SECRET", "another")
    assert with_access(look)


def test_when_all_keys_are_revoked_new_ones_may_be_made_with_another_secret(
    with_access: With[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def revoke(access: Access, _: AsyncMemory) -> None:
        await access.revoke_key((await access.create_key("sara")).id)

    async def create(access: Access, _: AsyncMemory) -> None:
        key = await access.create_key("omar")
        assert await access.verify(key.token or "") is not None
        assert not await access.accepts_no_key()

    with_access(revoke)
    monkeypatch.setenv("RECOLLECT_KEY_SECRET", "another")
    with_access(create)


def test_a_restore_of_a_backup_from_before_the_first_key_does_not_open_the_server(
    location: str, tmp_path: Path, with_access: With[Any]
) -> None:
    async def restore(access: Access, memory: AsyncMemory) -> None:
        await memory.backup(tmp_path / "before.db")
        await access.create_key("sara")
        await memory.restore(tmp_path / "before.db")
        assert await access.requires_keys(fresh=True)

    async def look(access: Access, _: AsyncMemory) -> None:  # the process that replaces the first one
        assert await access.requires_keys()

    with_access(restore)
    with_access(look)
