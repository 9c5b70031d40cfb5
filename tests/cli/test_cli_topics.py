"""`recollect topics`, `topic` and `feedback`: the list, one topic and its changes; and erasing a topic."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import apsw
import pytest
from typer.testing import CliRunner

from recollect import Memory
from recollect.cli import app, display
from recollect.cli.topics import render_curve
from recollect.core.topics import Topic
from support.fault_server import FaultServer, Reply

RUNNER = CliRunner()
Run = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("quick_vectors")
CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
NOW = datetime.now(UTC)
THREADS = {
    "bread": "sourdough bread flour starter oven crust",
    "trip": "train Seville Granada hotel Alhambra tickets",
    "code": "Python asyncio tasks cancel shutdown exception",
}


def turns(thread: str, count: int, *, days_ago: float) -> list[dict[str, Any]]:
    """Return questions about one thing, each with its answer, a minute apart."""
    messages, start = [], NOW - timedelta(days=days_ago)
    for number in range(1, count + 1):
        at = start + timedelta(minutes=number)
        for role, name in (("user", f"{thread}{number}"), ("assistant", f"{thread}{number}a")):
            messages.append({"id": name, "role": role, "content": f"{THREADS[thread]} {role} {number}", "at": at})
    return messages


@pytest.fixture
def run(db: str) -> Run:
    def invoke(name: str, *args: object, code: int = 0) -> Any:
        result = RUNNER.invoke(app, [name, "--db", db, *map(str, args)])
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return invoke


@pytest.fixture
def threads(db: str) -> str:
    """Return a database with three threads: bread (8 turns, 3 days ago), code (2 turns), trip (2 turns, now)."""
    with Memory(db, worker=False) as memory:
        memory.add_many("home", turns("bread", 8, days_ago=3))
        memory.add_many("home", turns("code", 2, days_ago=1))
        memory.add_many("home", turns("trip", 2, days_ago=0.01))
        memory.update_conversation("home", zone="Asia/Riyadh")
        memory.drain()
        assert [one.title.split()[0] for one in memory.topics("home")] == ["train", "Python", "sourdough"]
    return db


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    real = display.Console

    def wide(columns: int) -> None:
        monkeypatch.setattr(display, "Console", lambda **_: real(force_terminal=True, width=columns, highlight=False))

    return wide


def as_json(result: Any) -> Any:
    return json.loads(result.stdout)


def uncoloured(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def listed(db: str) -> dict[str, Topic]:
    """Return the topics by their threads."""
    with Memory(db, worker=False) as memory:
        return {memory.topic_history("home", topic=one.id)[0].id[:-1]: one for one in memory.topics("home")}


# The list


def test_a_list_has_the_active_topic_first_and_the_day_from_which_each_goes_cold(run: Run, threads: str) -> None:
    result = run("topics", "home")
    heading, *rows = result.stdout.splitlines()
    assert heading.split() == ["state", "topic", "messages", "priority", "cold", "from", "memory", "decay", "title"]
    assert [row.split()[0] for row in rows] == ["active", "warm", "archived"]
    known = listed(threads)
    for row, topic in zip(rows, (known["trip"], known["code"], known["bread"]), strict=True):
        fades = topic.fades_at.astimezone(ZoneInfo("Asia/Riyadh"))
        assert f"  {topic.id}  " in row
        assert f" {topic.active_messages} + {topic.archived_messages} " in row
        assert re.search(rf"  {fades.day} {fades:%b} +{topic.memory_type} {topic.half_life_days:g} d ", row)
        assert row.endswith(f"  {topic.title}")
    assert known["bread"].archived_messages > 0
    assert "3 topics of 24 messages" in result.stderr
    assert (
        "Above 20 topics, those that have faded go cold: their messages are archived, never deleted." in result.stderr
    )


def test_a_list_as_json_is_what_the_method_returns(run: Run, threads: str) -> None:
    shown = as_json(run("topics", "home", "--json"))
    with Memory(threads, worker=False) as memory:
        found = [one.to_dict() for one in memory.topics("home")]
    moving = {"priority"}
    assert [{name: one[name] for name in one.keys() - moving} for one in shown] == [
        {name: one[name] for name in one.keys() - moving} for one in found
    ]


def test_on_a_terminal_titles_stand_below_if_it_is_narrow_and_no_line_is_too_long(
    run: Run, threads: str, on_terminal: Callable[[int], None]
) -> None:
    title = listed(threads)["trip"].title
    for width in (140, 80, 50, 30):
        on_terminal(width)
        lines = uncoloured(run("topics", "home").stdout).splitlines()
        assert max(map(len, lines)) <= width
        assert ("decay" in lines[0]) == (width >= 80)
        assert (title in lines[1]) == (width >= 140)
    on_terminal(80)
    shown = uncoloured(run("topics", "home").stdout)
    assert re.search(rf"^active +t-[0-9a-f]{{6}} .+\n {{10}}{title}$", shown, re.MULTILINE)


def test_the_curve_falls_and_the_mark_moves_on_with_time(threads: str) -> None:
    topic = listed(threads)["bread"]
    whole = topic.fades_at - topic.last_active_at
    for share, place in ((0, 0), (0.5, 4), (1, 8), (9, 10)):
        now = topic.last_active_at + share * whole
        drawn = render_curve(topic, now, 10).plain
        assert drawn.index("┃") == place
        levels = ["▁▂▃▄▅▆▇█".index(one) for one in drawn.replace("┃", "")]
        assert levels == sorted(levels, reverse=True)
        assert (levels[0], levels[-1]) == (7, 0)


def test_what_was_added_a_moment_ago_has_its_topic(run: Run, threads: str) -> None:
    run("add", "home", "user", THREADS["code"] + " again")
    assert as_json(run("topics", "home", "--json"))[0]["title"].startswith("Python")


def test_many_messages_without_a_topic_are_counted_and_left_to_a_worker(run: Run, db: str) -> None:
    with Memory(db, worker=False) as memory:
        memory.add_many("home", turns("bread", 40, days_ago=1))
    result = run("topics", "home")
    assert result.stdout == ""
    assert "No topics yet." in result.stderr
    assert "80 messages are not in a topic yet. `recollect worker --once` assigns them." in result.stderr
    run("worker", "--once")
    assert "in a topic yet" not in run("topics", "home").stderr


def test_without_the_embedder_new_messages_get_no_topic_and_a_warning(
    run: Run, threads: str, embedder: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("add", "home", "user", "something else")
    run("add", "other", "user", "something else")
    monkeypatch.setattr(embedder, "always", Reply(500))
    result = run("topics", "home")
    assert len(result.stdout.splitlines()) == 4
    assert "1 message is not in a topic yet" in result.stderr
    assert "warning: vectors failed" in result.stderr
    run("topics", "other", code=5)


def test_limit_shortens_the_list_and_says_how_to_see_more(run: Run, threads: str) -> None:
    result = run("topics", "home", "--limit", 1)
    assert len(result.stdout.splitlines()) == 2
    assert "To see all topics add --limit 3." in result.stderr
    assert len(as_json(run("topics", "home", "--limit", 2, "--json"))) == 2


def test_a_search_finds_topics_in_one_conversation_or_in_all(run: Run, threads: str) -> None:
    with Memory(threads, worker=False) as memory:
        memory.add("work", "user", "train tickets for the fair in Hanover", id="w1")
        memory.drain()
    found = as_json(run("topics", "--search", "tickets", "--json"))
    assert {one["topic"]["conversation"] for one in found[:2]} == {"home", "work"}
    found = as_json(run("topics", "home", "--search", "tickets", "--limit", 1, "--json"))
    assert [one["topic"]["id"] for one in found] == [listed(threads)["trip"].id]
    shown = run("topics", "--search", "sourdough crust", "--limit", 1).stdout.splitlines()
    assert shown[0].split() == ["score", "state", "topic", "conversation", "title"]
    assert shown[1].split()[1:4] == ["archived", listed(threads)["bread"].id, "home"]


def test_related_topics_are_named_with_the_command_that_merges_them(run: Run, threads: str) -> None:
    assert "No two topics are similar." in run("topics", "home", "--related").stderr
    bread = listed(threads)["bread"]
    run("topic", bread.id, "--split", "bread3", "--split", "bread3a")
    result = run("topics", "home", "--related")
    assert len(result.stdout.splitlines()) == 3
    assert re.search(r"recollect topic t-\w+ --merge t-\w+", result.stderr)
    (pair,) = as_json(run("topics", "home", "--related", "--json"))
    assert bread.id in (pair["into"]["id"], pair["topic"]["id"])


# One topic


def test_a_topic_shows_its_summary_its_figures_and_its_curve(run: Run, threads: str) -> None:
    bread = listed(threads)["bread"]
    shown = run("topic", bread.id).stdout
    head, about, _, summary, *_ = shown.splitlines()
    assert (head, about) == (bread.title, f"{bread.id} · archived · home")
    assert summary == bread.summary
    assert re.search(r"^messages +16: 5 not archived, 11 archived$", shown, re.MULTILINE)
    assert re.search(r"^memory +medium; half-life 2 d after 7 accesses$", shown, re.MULTILINE)
    assert re.search(
        r"^goes cold +(on \d+ \w{3}|any time), if it is not mentioned and there are more than 20 topics$",
        shown,
        re.MULTILINE,
    )
    assert re.search(r"^decay +[▁▂▃▄▅▆▇█┃]{41}$", shown, re.MULTILINE)
    assert "delete" not in shown
    assert as_json(run("topic", bread.id, "--json"))["summary"] == bread.summary


def test_a_few_characters_of_an_id_are_enough(run: Run, threads: str) -> None:
    bread = listed(threads)["bread"]
    assert as_json(run("topic", bread.id[:8], "--json"))["id"] == bread.id
    assert "short_id" in run("topic", bread.id[:5], code=2).stderr
    assert "topic_not_found" in run("topic", "t-ffffffffffff", code=3).stderr


def test_an_id_that_may_be_two_is_refused_and_both_are_named(run: Run, threads: str) -> None:
    connection = apsw.Connection(threads)
    connection.execute("UPDATE topics SET id = 't-abcdef' || key")
    connection.close()
    said = run("topic", "t-abcdef", "--pin", code=2).stderr
    assert "ambiguous_topic" in said
    for topic in listed(threads).values():
        assert f"{topic.id} ({topic.title})" in said
        assert not topic.pinned


def test_history_shows_archived_messages_too(run: Run, threads: str) -> None:
    bread = listed(threads)["bread"]
    result = run("topic", bread.id, "--history")
    assert "16 messages, 11 of them archived · times in Asia/Riyadh" in result.stderr
    assert result.stdout.count(THREADS["bread"]) == 16
    assert [one["id"] for one in as_json(run("topic", bread.id, "--history", "--json"))][:2] == ["bread1", "bread1a"]


def test_messages_that_lost_their_text_cause_a_warning(run: Run, threads: str) -> None:
    connection = apsw.Connection(threads)
    connection.execute("UPDATE blocks SET body = x'00'")
    connection.close()
    assert "the text of 11 messages is lost" in run("topic", listed(threads)["bread"].id, "--history").stderr
    assert re.search(r"^archive +error", run("doctor", code=1).stdout, re.MULTILINE)


def test_context_is_what_the_method_returns(run: Run, threads: str) -> None:
    bread = listed(threads)["bread"]
    with Memory(threads, worker=False) as memory:
        found = memory.topic_context("home", topic=bread.id)
    assert as_json(run("topic", bread.id, "--context", "--json")) == found
    assert len(found) == 6  # what is told, what opened the conversation, the last four
    assert run("topic", bread.id, "--context").stdout.endswith(f"assistant: {THREADS['bread']} assistant 8\n")


def test_decay_is_a_table_with_marks_for_now_and_for_when_it_has_faded(run: Run, threads: str) -> None:
    trip = listed(threads)["trip"]
    shown = run("topic", trip.id, "--decay").stdout
    assert len(re.findall(r"^20\d\d-\d\d-\d\d ", shown, re.MULTILINE)) == 21
    assert re.search(r" 1\.00  █+ +now$", shown, re.MULTILINE)
    assert re.search(r" 0\.05  \S+ +faded$", shown, re.MULTILINE)
    curve = as_json(run("topic", trip.id, "--decay", "--json"))
    assert datetime.fromisoformat(curve[0][0]) == trip.last_active_at
    assert curve[0][1] == trip.importance


# By hand


def test_title_tags_pin_and_importance_can_be_given_together(run: Run, threads: str) -> None:
    code = listed(threads)["code"].id
    shown = run("topic", code, "--title", "Loops", "--tag", "work", "--tag", "py", "--pin", "--importance", 0.5).stdout
    assert shown.startswith("Loops\n")
    assert re.search(r"^tags +work, py$", shown, re.MULTILINE)
    assert re.search(r"^importance +0\.50$", shown, re.MULTILINE)
    assert re.search(r"^goes cold +never: it is pinned$", shown, re.MULTILINE)
    assert re.search(r" pinned .* Loops  · work, py$", run("topics", "home").stdout, re.MULTILINE)
    found = as_json(run("topic", code, "--untag", "--unpin", "--json"))
    assert (found["title"], found["tags"], found["pinned"], found["importance"]) == ("Loops", [], False, 0.5)


def test_a_topic_can_be_archived_and_restored(run: Run, threads: str) -> None:
    code = listed(threads)["code"].id
    result = run("topic", code, "--archive")
    assert "it is cold; it comes back when it is mentioned" in result.stdout
    assert "recollect worker --once" in result.stderr
    run("worker", "--once")
    assert re.search(rf"^cold +{code} +0 \+ 4 .* cold now ", run("topics", "home").stdout, re.MULTILINE)
    assert as_json(run("topic", code, "--restore", "--json"))["state"] == "warm"


def test_merging_says_how_to_undo_it_and_that_works_by_the_start_of_the_id(run: Run, threads: str) -> None:
    known = listed(threads)
    bread, code = known["bread"].id, known["code"].id
    result = run("topic", bread[:8], "--merge", code[:8])
    assert re.search(rf"^merged into it +{code}$", result.stdout, re.MULTILINE)
    assert f"To undo this: `recollect topic {code} --unmerge`." in result.stderr
    assert as_json(run("topic", code[:8], "--json"))["id"] == bread
    assert as_json(run("topic", code[:8], "--unmerge", "--json"))["id"] == code
    assert "not_merged" in run("topic", code, "--unmerge", code=1).stderr
    assert "same_topic" in run("topic", code, "--merge", code, code=2).stderr


def test_messages_split_off_by_their_ids_or_numbers(run: Run, threads: str) -> None:
    bread = listed(threads)["bread"].id
    made = as_json(run("topic", bread, "--split", "bread3", "--split", 6, "--title", "Third", "--json"))
    assert (made["title"], made["messages"]) == ("Third", 2)
    history = as_json(run("topic", made["id"], "--history", "--json"))
    assert [one["id"] for one in history] == ["bread3", "bread3a"]
    assert "message_not_found" in run("topic", bread, "--split", "trip1", code=3).stderr


@pytest.mark.parametrize(
    "args",
    [
        ("--pin", "--archive"),
        ("--archive", "--restore"),
        ("--history", "--decay"),
        ("--split", "bread1", "--pin"),
        ("--split", "bread1", "--title", "x", "--pin"),
        ("--tag", "x", "--untag"),
        ("--importance", "2"),
        ("--title", "x", "--tag", ""),
        ("--title", "x" * 10_000, "--pin"),
        ("--title", "x", "--importance", "nan"),
        ("--title", " ", "--tag", "y", "--pin"),
    ],
)
def test_options_that_contradict_or_cannot_be_stored_change_nothing(
    run: Run, threads: str, args: tuple[str, ...]
) -> None:
    before = listed(threads)["bread"]
    run("topic", before.id, *args, code=2)
    after = listed(threads)["bread"]
    assert (after.title, after.tags, after.pinned, after.state) == (before.title, (), False, "archived")


def test_changes_are_made_together_or_not_at_all(run: Run, threads: str) -> None:
    connection = apsw.Connection(threads)
    connection.execute(
        "CREATE TRIGGER refuse BEFORE UPDATE OF pinned ON topics WHEN NEW.pinned BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    connection.close()
    before = listed(threads)["bread"]
    run("topic", before.id, "--title", "Bread", "--tag", "food", "--pin", code=1)
    after = listed(threads)["bread"]
    assert (after.title, after.tags, after.pinned) == (before.title, (), False)


def test_wrong_use_of_the_list_is_refused(run: Run, threads: str) -> None:
    assert "no_conversation" in run("topics", code=2).stderr
    assert "conversation_not_found" in run("topics", "nope", code=3).stderr
    assert "conversation_not_found" in run("topics", "nope", "--search", "x", code=3).stderr
    run("topics", "home", "--search", "x", "--related", code=2)
    run("topics", "home", "--limit", -1, code=2)


@pytest.mark.parametrize("args", [("topics", "home"), ("topic", "t-abcdef"), ("feedback", "m1", "up")])
def test_without_a_database_there_is_nothing_and_none_is_made(run: Run, db: str, args: tuple[str, ...]) -> None:
    assert "database_not_found" in run(*args, code=3).stderr
    assert not Path(db).exists()


def test_people_do_not_see_each_others_topics(run: Run, threads: str) -> None:
    bread = listed(threads)["bread"].id
    run("topics", "home", "--person", "eve", code=3)
    run("topic", bread, "--person", "eve", code=3)
    run("topic", bread, "--title", "mine", "--person", "eve", code=3)
    run("erase", "--topic", bread, "--yes", "--person", "eve", code=3)
    assert listed(threads)["bread"].messages == 16


def test_a_topic_cannot_control_the_terminal(run: Run, threads: str) -> None:
    bread = listed(threads)["bread"].id
    run("topic", bread, "--title", "a\x1b[2J\nb\u202e", "--tag", "x\x07y\nz")
    run("add", "home", "user", THREADS["bread"] + " \x1b[31m")
    for args in (("topics", "home"), ("topic", bread), ("topic", bread, "--history"), ("topic", bread, "--context")):
        shown = run(*args).stdout
        assert not re.search(CONTROL, shown)
        assert "\u202e" not in shown
    assert len(run("topics", "home").stdout.splitlines()) == 4
    assert not re.search(CONTROL, run("topics", "--search", "sourdough").stdout)


# feedback


def test_feedback_makes_a_topic_more_or_less_important_and_can_be_taken_back(run: Run, threads: str) -> None:
    assert "Stored: thumb -1 for code1." in run("feedback", "code1", "-1").stderr
    lower = listed(threads)["code"].importance
    assert lower < 1
    run("feedback", "code1", "down")
    assert listed(threads)["code"].importance == lower
    assert "The feedback on code1 is taken back." in run("feedback", "code1", "0").stderr
    assert listed(threads)["code"].importance == 1
    kept = as_json(run("feedback", "code1", "-0.5", "--kind", "edited", "--json"))
    assert kept == {"message": "code1", "kind": "edited", "value": -0.5}


def test_feedback_takes_the_number_of_a_message_in_a_conversation(run: Run, threads: str) -> None:
    assert as_json(run("feedback", 17, "down", "--conversation", "home", "--json"))["message"] == "code1"
    assert listed(threads)["code"].importance < 1
    assert "message_not_found" in run("feedback", 170, "up", "--conversation", "home", code=3).stderr
    assert "message_not_found" in run("feedback", 17, "up", code=3).stderr


@pytest.mark.parametrize("args", [("2",), ("good",), ("nan",), ("up", "--kind", "loud"), ("up", "--knd", "x")])
def test_wrong_feedback_is_refused(run: Run, threads: str, args: tuple[str, ...]) -> None:
    run("feedback", "code1", *args, code=2)
    assert listed(threads)["code"].importance == 1


# erase


def test_erasing_a_topic_shows_what_it_would_take_and_leaves_the_others(run: Run, threads: str) -> None:
    bread = listed(threads)["bread"]
    shown = run("erase", "--topic", bread.id[:8], "--dry-run", "--json")
    assert as_json(shown)["counts"] == {"conversations": 0, "messages": 16}
    assert bread.title in shown.stderr
    assert "--yes" in run("erase", "--topic", bread.id, code=2).stderr
    receipt = as_json(run("erase", "--topic", bread.id[:8], "--yes", "--json"))
    assert receipt["scope"] == {"topic": bread.id}
    assert (receipt["counts"]["messages"], receipt["counts"]["topics"], receipt["remaining"]) == (16, 1, 0)
    assert set(listed(threads)) == {"trip", "code"}
    run("erase", "--topic", bread.id, "--dry-run", code=3)
    run("erase", "--topic", listed(threads)["code"].id, "--conversation", "home", "--yes", code=2)
