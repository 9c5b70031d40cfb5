"""Names in Arabic text: found by lists and by the words around them, and not inside other words."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from recollect.core.extract import extract
from recollect.core.message import Message
from support.growth import assert_linear

# Written without knowledge of the rules. The rules were made with the first half; the second is unseen.
CASES = Path(__file__).parents[2] / "data" / "recall" / "arabic_statements.json"
FOUND = {"dev": 0.96, "test": 0.47}  # the share of the names that are found
MAX_WRONG = {"dev": 0, "test": 3}  # words taken for a name


def find_names(text: str) -> list[str]:
    message = Message("m", "chat", 1, "user", text, datetime(2026, 1, 1, tzinfo=UTC), "typed")
    return [entry.value for entry in extract([message]) if entry.kind == "entity"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("لدينا اجتماع غدا", []),
        ("أتمنى لكم التوفيق", []),
        ("هذا الكتاب مني لك", []),
        ("قابلت منى أمس", ["منى"]),
        ("كم عمر ابنك؟", []),
        ("سافر عمر إلى صلالة", ["عمر", "صلالة"]),
        ("سلمت الأوراق لمريم ويوسف", ["مريم", "يوسف"]),
        ("اتصل بأبو سيف", ["سيف"]),
        ("أعمل في مستشفى خولة", ["مستشفى خولة"]),
        ("درست في جامعة السلطان قابوس", ["جامعة السلطان قابوس"]),
        ("وصلنا مطار فرانكفورت", ["فرانكفورت", "مطار فرانكفورت"]),
        ("سكنّا في الجبل الأخضر", ["الجبل الأخضر"]),
        ("اشتريت هذا الفستان من البستان", []),
        ("الحاجة أم الاختراع", []),
        ("قرأت جريدة اليوم", []),
        ("المدرسة الجديدة قريبة من مدرسة أختي", []),
    ],
)
def test_a_name_is_found_only_where_it_names_somebody_or_something(text: str, names: list[str]) -> None:
    assert find_names(text) == names


@pytest.mark.parametrize("half", FOUND)
def test_names_in_statements_written_without_knowledge_of_the_rules(half: str) -> None:
    cases = json.loads(CASES.read_text(encoding="utf-8"))[half]
    found = [(case, find_names(case["text"])) for case in cases]
    missed = [name for case, names in found for name in case["entities"] if name not in names]
    wrong = [name for case, names in found for name in case["not_entities"] if name in names]
    expected = sum(len(case["entities"]) for case in cases)
    assert len(wrong) <= MAX_WRONG[half], wrong
    assert 1 - len(missed) / expected >= FOUND[half], missed


def test_the_search_for_names_grows_with_the_text_alone() -> None:
    assert_linear(find_names, lambda n: "وصل وفد بنك مسقط مع سالم الحارثي " * n, 200)
