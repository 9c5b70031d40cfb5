"""Writes the labels of ledger entries in the language of the talk.

Slots and kinds are stored in English, whatever the talk: rules and later entries compare them. Only what people and
models read is translated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Final

from recollect.core import times
from recollect.core.language.utterances import Language

_ARABIC_LETTER: Final = re.compile("[\u0621-\u064a]")
_ARABIC_SLOTS: Final[Mapping[str, str]] = {
    "about": "معلومات", "activity": "نشاط", "address": "العنوان", "age": "العمر", "allergy": "حساسية",
    "answer style": "أسلوب الإجابة", "birthday": "تاريخ الميلاد", "budget": "الميزانية", "chapters": "فصول",
    "children": "الأطفال", "columns": "أعمدة", "count": "العدد", "deadline": "الموعد النهائي", "decision": "قرار",
    "diet": "النظام الغذائي", "disability": "إعاقة", "dislikes": "غير محبّب", "email": "البريد الإلكتروني",
    "employer": "جهة العمل", "event": "حدث", "fear": "مخاوف", "finding": "نتيجة", "form of address": "طريقة المخاطبة",
    "format": "الصيغة", "goal": "هدف", "habit": "عادة", "health": "الصحة", "hobby": "هواية", "home": "السكن",
    "household": "أهل البيت", "important": "مهم", "instruction": "تعليمات", "job": "الوظيفة", "language": "اللغة",
    "learning": "يجري تعلّمه", "likes": "محبّب", "medication": "الدواء", "name": "الاسم", "nationality": "الجنسية",
    "origin": "الأصل", "owns": "الممتلكات", "past": "سابقًا", "phone": "الهاتف", "prefers": "مفضّل",
    "relationship": "الحالة الاجتماعية", "requirement": "متطلب", "sections": "أقسام", "size": "المقاس",
    "slides": "شرائح", "studies": "الدراسة", "team": "الفريق", "theme": "المظهر", "tool": "أداة", "units": "الوحدات",
    "work": "العمل",
}  # fmt: skip
_ARABIC_KINDS: Final[Mapping[str, str]] = {
    "decision": "قرار", "intent": "هدف", "question": "سؤال مفتوح", "structure": "بنية", "url": "رابط",
}  # fmt: skip


def language_of(text: str) -> Language:
    """Return "ar" for a text with an Arabic letter. A short value has no other sign of its language."""
    return "ar" if _ARABIC_LETTER.search(text) else "en"


def slot_label(slot: str, language: Language) -> str:
    """Return how a slot is shown. A slot of several parts («أخي سالم: job») is translated in its last part."""
    if language == "en":
        return slot
    owner, separator, last = slot.rpartition(": ")
    return f"{owner}{separator}{_ARABIC_SLOTS.get(last, last)}"


def kind_label(kind: str, language: Language) -> str:
    """Return how a kind of entry is shown before its text."""
    return _ARABIC_KINDS.get(kind, kind) if language == "ar" else kind


def said_note(day: date, language: Language) -> str:
    """Return the note that names the day on which something was said."""
    if language == "ar":
        return f"(قيل في {day.day} {times.ARABIC_MONTH_NAMES[day.month - 1]} {day.year})"
    return f"(said {day.day} {times.SHORT_MONTH_NAMES[day.month - 1]} {day.year})"


def replaced_note(value: str, language: Language) -> str:
    """Return the note that names the value which held before."""
    return f"(سابقًا: {value})" if language == "ar" else f"(before: {value})"
