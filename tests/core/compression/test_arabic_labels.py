"""In an Arabic talk the labels of narrative, ledger and prompt are Arabic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from recollect.core.compression.attribution import strip_day_label
from recollect.core.compression.ledger import Entry, to_important_data
from recollect.core.compression.narrative import length_for_version, render_narrative
from recollect.core.compression.summariser import summarise
from recollect.core.extract import extract
from recollect.core.message import Message
from recollect.recall.prompt.ledger import render_for_prompt

START = datetime(2026, 10, 5, 10, tzinfo=UTC)
TALK = [
    ("user", "أعمل مهندسا في وزارة النقل، وعندي حساسية من الفول السوداني، وأفضل الردود المختصرة."),
    ("assistant", "حسنا، سأتذكر أنك تعمل في وزارة النقل."),
    ("user", "قررنا أن نستخدم PostgreSQL لقاعدة البيانات في المشروع."),
    ("assistant", "تمام، سجلت القرار."),
]


def make_messages(talk: list[tuple[str, str]]) -> list[Message]:
    return [
        Message(f"m{seq}", "c", seq, role, text, START + timedelta(days=seq), "typed")
        for seq, (role, text) in enumerate(talk)
    ]


def make_entry(kind: str, slot: str, text: str) -> Entry:
    return Entry(kind, "user", slot, text, text, ("m1",), 1, START)


def test_the_days_of_an_arabic_narrative_have_arabic_months() -> None:
    statements = summarise([make_messages(TALK)], length=length_for_version(1))
    narrative = render_narrative(statements)
    assert narrative.startswith("[5 أكتوبر 2026] المستخدم: ")
    assert "[7 أكتوبر] " in narrative
    assert "October" not in narrative
    assert strip_day_label(statements[0].text).startswith("المستخدم: ")


def test_a_later_narrative_takes_the_arabic_labels_off_and_puts_them_on_again() -> None:
    old = summarise([make_messages(TALK)], length=length_for_version(1))
    again = summarise([], old=old, length=length_for_version(1))
    assert render_narrative(again) == render_narrative(old)


def test_slots_of_an_arabic_ledger_are_named_in_arabic_under_the_same_seven_keys() -> None:
    data = to_important_data(extract(make_messages(TALK)))
    assert data["user_preferences"] == {"مفضّل": "الردود المختصرة"}
    assert list(data) == [
        "user_preferences", "key_decisions", "important_facts", "source_urls", "document_structure", "entities",
        "custom_fields",
    ]  # fmt: skip


def test_what_follows_an_allergy_is_no_part_of_it_and_no_fact_begins_with_and() -> None:
    data = to_important_data(extract(make_messages(TALK)))
    facts = data["important_facts"]
    assert "حساسية من الفول السوداني" in facts
    assert not [fact for fact in facts if fact.startswith("و") or "المختصرة" in fact]


def test_slots_of_an_english_ledger_stay_english() -> None:
    assert to_important_data([make_entry("preference", "likes", "likes tea")])["user_preferences"] == {
        "likes": "likes tea"
    }


def test_an_arabic_entry_in_a_prompt_has_arabic_notes() -> None:
    decision = make_entry("decision", "decision", "قررنا السفر في الأسبوع القادم")
    home = make_entry("fact", "home", "أسكن في نزوى")
    assert render_for_prompt(decision, "", "UTC").startswith("قرار: قررنا السفر")
    assert render_for_prompt(home, "مسقط", "UTC") == "أسكن في نزوى (سابقًا: مسقط)"
    assert render_for_prompt(make_entry("fact", "event", "سافرت قبل العيد"), "", "UTC").endswith(
        "(قيل في 5 أكتوبر 2026)"
    )
