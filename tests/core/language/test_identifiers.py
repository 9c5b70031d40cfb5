"""Names of programs and machines are found; ordinary language is not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.language.identifiers import MAX_NAME_CHARACTERS, find_identifiers, is_code_question
from support.growth import assert_linear

QUESTIONS = Path(__file__).parents[2] / "data" / "code_questions.json"
NAMES = [
    ("where is parseInvoiceLine() defined", {"parseinvoiceline"}),
    ("The RetryPolicy and the HTTPServer.", {"retrypolicy", "httpserver"}),
    ("what did we decide about MAX_RETRY_DELAY_MS?", {"max_retry_delay_ms"}),
    ("get_user_by_id, not get_users_by_ids", {"get_user_by_id", "get_users_by_ids"}),
    ("__init__ and _private", {"__init__", "_private"}),
    ("open config.yaml and src/app/main.py:42:7.", {"config.yaml", "src/app/main.py"}),
    ("docker-compose.yml, .env and ~/.bashrc", {"docker-compose.yml", ".env", "~/.bashrc"}),
    (r"in C:\Users\me\notes.txt", {r"c:\users\me\notes.txt"}),
    ("call os.path.join or json.Marshal", {"os.path.join", "json.marshal"}),
    ("std::fs::read in Vec::new", {"std::fs::read", "vec::new"}),
    ("run(x, 1) then flush()", {"run", "flush"}),
    ("proxy.(*Stream).copyLoop, rows[0].toList and ../a.py", {"copyloop", "tolist", "../a.py"}),
    ("SQLSTATE 23505 or 40P01 on GPIO26", {"23505", "40p01", "gpio26"}),
    ("pass --no-cache=true --verbose", {"--no-cache", "--verbose"}),
    ("set `worker-count` and `retry` in `npm run build-all`", {"worker-count", "retry", "build-all"}),
    ("error[E0308], TS2345 and ECONNREFUSED", {"e0308", "ts2345", "econnrefused"}),
    ("HTTP 404, exit code 137, status: 503", {"404", "137", "503"}),
    ("since v1.2.3, broken in 2.0.1-rc1", {"v1.2.3", "2.0.1-rc1"}),
    ("see PROJ-123, CVE-2024-3094 and #45", {"proj-123", "cve-2024-3094", "#45"}),
    ("commit 3f2a9bc at 0xDEADBEEF", {"3f2a9bc", "0xdeadbeef"}),
    ("123E4567-e89b-12d3-a456-426614174000", {"123e4567-e89b-12d3-a456-426614174000"}),
    ("$DATABASE_URL, ${HOME}, %APPDATA%", {"database_url", "home", "appdata"}),
    ("@lru_cache over @app.route('/x')", {"lru_cache", "app.route"}),
    ("from order_lines join stock_moves", {"order_lines", "stock_moves"}),
    ("class Invoice: x\nconst total = 4\nCREATE TABLE orders (id int)", {"invoice", "total", "orders"}),
    ("https://api.example.com/v2/users/get-user?id=1", {"api.example.com", "v2/users/get-user", "v2", "get-user"}),
    ("(`parse_line`), «parse_line»; parse_line!", {"parse_line"}),
]
ORDINARY = [
    "My class at school. Then we met, e.g. at 10:30 or i.e. later, in the U.S. or the U.S.A.",
    "It costs 3.14 or 1,000.50, which is 20% more, and/or 24/7, on 12.05.2024 and 2024-05-12.",
    "My iPhone, two MacBooks, McDonald and YouTube; PDFs on TVs; a PhD (Ph.D.) in the a.m.",
    "I am done.Then we left.Please call Mr.Smith about the item(s) and Tom(my brother) too",
    "STOP SHOUTING! EVERYTHING is FINE -- really -- a well-known state-of-the-art thing",
    "he/she, km/h, TCP/IP, red/green/blue, 1/2, w/o COVID-19",
    "The $100 ticket for A4 paper, B12 vitamins and the M25; write to tom@example.com",
    "ميزانية المشروع ٤٠٬٠٠٠ دينار. 预算是四万元。",
    "",
]
ABOUT_CODE = [
    "what does retryLimit do",
    "where is `retry` set?",
    "why does the function throw an exception",
    "how do I parse json",
    "the python script crashes",
    "fix for E1147",
    "which tests cover PROJ-123",
    "is there a race condition?",
    "```\nx\n```",
    "import { a } from b",
    "what did we change in nginx",
]
NOT_ABOUT_CODE = [
    "how was my test in history class at school",
    "what did the doctor say about heart function?",
    "import duties on string instruments",
    "which python did we see at the zoo",
    "what is the dress code for the wedding",
    "when does my flight BA2490 leave",
    "where did I put the key to the server room",
    "how to merge two lanes on a branch road",
    "did I commit to the gym?",
    "my new iPhone from the U.S.",
    "ما هي ميزانية المشروع؟",
    "",
]


@pytest.mark.parametrize(("text", "names"), NAMES)
def test_names_are_found_whole_and_case_folded(text: str, names: set[str]) -> None:
    assert find_identifiers(text) == names


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_language_has_no_names(text: str) -> None:
    assert find_identifiers(text) == frozenset()


def test_all_ways_to_write_a_name_give_the_same_name() -> None:
    assert (
        find_identifiers("`load_all()`")
        == find_identifiers("@load_all")
        == find_identifiers("LOAD_ALL(x")
        == {"load_all"}
    )


@pytest.mark.parametrize("text", ABOUT_CODE)
def test_a_question_about_code_is_recognised(text: str) -> None:
    assert is_code_question(text)


@pytest.mark.parametrize("text", NOT_ABOUT_CODE)
def test_a_question_of_daily_life_is_not_about_code(text: str) -> None:
    assert not is_code_question(text)


@given(st.one_of(st.text(), st.text("aB1_.:/\\`()-$@# \n=%E'é字\x00", max_size=300)))
def test_any_text_is_read_and_names_are_bounded(text: str) -> None:
    names = find_identifiers(text)
    assert names == find_identifiers(text)
    assert all(name and len(name) <= 5 * MAX_NAME_CHARACTERS and name == name.casefold().casefold() for name in names)
    assert is_code_question(text) in (True, False)


@given(
    st.from_regex(r"[a-z]{2,9}(_[a-z]{2,9}){1,3}", fullmatch=True), st.sampled_from(["{}", "see {}.", "`{}`", "{}(1)"])
)
def test_every_snake_case_name_is_found_whatever_surrounds_it(name: str, surroundings: str) -> None:
    assert name in find_identifiers(surroundings.format(name))


def test_the_questions_for_measuring_name_what_their_evidence_says() -> None:
    conversations = json.loads(QUESTIONS.read_text(encoding="utf-8"))["conversations"]
    messages = {message["id"]: message["content"] for each in conversations for message in each["messages"]}
    questions = [question for each in conversations for question in each["questions"]]
    assert len(messages) >= 220
    assert len({question["id"] for question in questions}) == len(questions) >= 72
    for question in questions:
        evidence = [messages[key] for key in question["evidence"]]
        assert 1 <= len(evidence) <= 3
        asked = find_identifiers(question["query"])
        named = frozenset[str]().union(*map(find_identifiers, evidence))
        assert question["kind"] == ("identifier" if asked else question["kind"])
        assert not asked or asked & named or any(name in "".join(evidence).lower() for name in asked), question["id"]


HARD = ["a ", "a", "a_", "_", "a.", "a/", "a::", "`a", "a(", "--a", "$a", "@a", "#1", "A", "aB ", "1.", "v1.", "a://b/"]
HARD += ["/", "\\", "class A", "const a ", "error 12 ", "a-", "a.b(", "from a", "SELECT a", "def a", "a1b2c3d4 ", "字"]


@pytest.mark.slow
@pytest.mark.parametrize("read", [find_identifiers, is_code_question])
@pytest.mark.parametrize("pattern", HARD)
def test_a_repeated_pattern_is_read_in_linear_time(pattern: str, read: Callable[[str], object]) -> None:
    assert_linear(read, lambda n: pattern * (n // len(pattern)), 50_000)


@pytest.mark.parametrize("read", [find_identifiers, is_code_question])
def test_signs_in_disorder_are_read_in_linear_time(read: Callable[[str], object]) -> None:
    assert_linear(read, lambda n: "".join(random.Random(5).choices("ab A1_./:`(-$@# \n", k=n)), 30_000)
