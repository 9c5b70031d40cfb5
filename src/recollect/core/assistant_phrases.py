"""Lists what the built-in assistant says, in English and in Arabic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from recollect.core import times
from recollect.core.language.utterances import Language

_COMMAND: Final = "RECOLLECT_MODEL_URL=http://127.0.0.1:11434/v1 RECOLLECT_MODEL_NAME=llama3.2 recollect serve"


@dataclass(frozen=True, slots=True)
class Phrases:
    """The sentences of one language. Those with braces are formats."""

    no_model: str  # said once in a conversation, and never stored
    noted: str
    not_stored: str
    remembered: str
    nearest: str
    nothing_remembered: str
    newest: str
    greeting: str
    welcome: str
    acknowledged: str
    memory_off: str
    unreadable: str
    how_to_forget: str
    quote: str
    noted_words: str
    months: tuple[str, ...]
    said_by_role: Mapping[str, str]
    said_by_name: str

    def day(self, day: date) -> str:
        """Return a date: "1 Jan 2026"."""
        return f"{day.day} {self.months[day.month - 1]} {day.year}"


_ENGLISH: Final = Phrases(
    no_model=(
        "No model is set, so I only note and quote what you tell me. Any OpenAI-compatible URL will do, for example a "
        f"local one:\n{_COMMAND}"
    ),
    noted="Noted: {words}",
    not_stored="Nothing of this conversation is stored, so I will not remember that.",
    remembered="This is what I remember:",
    nearest="I am not sure about that. The nearest that I remember:",
    nothing_remembered="I remember nothing about that yet.",
    newest="I cannot search by meaning yet: what was said is still being indexed. The last things you told me:",
    greeting="Hello! Tell me something to remember, or ask what you told me before.",
    welcome="You're welcome.",
    acknowledged="All right.",
    memory_off="Nothing of this conversation is stored, and memory is off.",
    unreadable="Memory cannot be read now ({code}).",
    how_to_forget=(
        "I erase nothing by myself. In `recollect chat`, /history shows the numbers of messages, and /forget NUMBER "
        "erases one for good. Elsewhere, `recollect erase` does it, or DELETE in the API."
    ),
    quote="{day} ({age}), {who}: {words}",
    noted_words="“{words}”",
    months=times.SHORT_MONTH_NAMES,
    said_by_role={"user": "you said", "assistant": "the assistant said", "tool": "a tool said"},
    said_by_name="{name} said",
)
_ARABIC: Final = Phrases(
    no_model=(
        "لم يُضبط نموذج، لذلك أكتفي بتدوين ما تقوله واقتباسه. يصلح أي عنوان متوافق مع واجهة OpenAI، مثل عنوان محلي:\n"
        f"{_COMMAND}"
    ),
    noted="دوّنت: {words}",
    not_stored="لا يُحفظ شيء من هذه المحادثة، لذلك لن أتذكر ذلك.",
    remembered="هذا ما أتذكره:",
    nearest="لست متأكداً من ذلك. أقرب ما أتذكره:",
    nothing_remembered="لا أتذكر شيئاً عن ذلك بعد.",
    newest="لا أستطيع البحث بالمعنى بعد، فما قيل ما زال قيد الفهرسة. آخر ما قلته لي:",
    greeting="أهلاً! أخبرني بشيء لأتذكره، أو اسألني عمّا قلته لي من قبل.",
    welcome="على الرحب والسعة.",
    acknowledged="حسناً.",
    memory_off="لا يُحفظ شيء من هذه المحادثة، والذاكرة متوقفة.",
    unreadable="لا يمكن قراءة الذاكرة الآن ({code}).",
    how_to_forget=(
        "لا أمحو شيئاً من تلقاء نفسي. في `recollect chat` يعرض الأمر /history أرقام الرسائل، ويمحو /forget NUMBER رسالة "
        "نهائياً. وفي غيره يمحو الأمر `recollect erase`، أو DELETE في الواجهة."
    ),
    quote="{day} ({age})، {who}: {words}",
    noted_words="«{words}»",
    months=times.ARABIC_MONTH_NAMES,
    said_by_role={"user": "قلت", "assistant": "قال المساعد", "tool": "قالت أداة"},
    said_by_name="من {name}",  # «قال» would be wrong for a woman
)
PHRASES: Final[Mapping[Language, Phrases]] = {"en": _ENGLISH, "ar": _ARABIC}

# One, two, three to ten, and more: Arabic counts in these four forms.
_ARABIC_UNITS: Final = {
    "minute": ("دقيقة", "دقيقتين", "دقائق", "دقيقة"),
    "hour": ("ساعة", "ساعتين", "ساعات", "ساعة"),
    "day": ("يوم", "يومين", "أيام", "يوماً"),
    "week": ("أسبوع", "أسبوعين", "أسابيع", "أسبوعاً"),
    "month": ("شهر", "شهرين", "أشهر", "شهراً"),
    "year": ("سنة", "سنتين", "سنوات", "سنة"),
}
_LAST_PLURAL: Final = 10


def describe_age(moment: datetime, now: datetime, language: Language) -> str:
    """Return in words how long ago a moment was: "2 days ago", "قبل يومين"."""
    age = times.measure_age(moment, now)
    if language == "en":
        return times.describe_age(moment, now)
    if age is None:
        return "الآن"
    count, unit = age
    one, two, few, many = _ARABIC_UNITS[unit]
    if count <= 2:
        return f"قبل {one if count == 1 else two}"
    last_digits = count % 100
    return f"قبل {count} {few if 3 <= last_digits <= _LAST_PLURAL else many}"
