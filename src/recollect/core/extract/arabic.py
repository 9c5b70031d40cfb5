"""Finds in Arabic sentences, written or spoken as in the Gulf, Egypt and the Levant, what the ledger should keep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from recollect.core.compression.ledger import DECISION, FACT, PREFERENCE
from recollect.core.extract.arabic_rules import CHOICES, GOALS, MATTERS, OPEN, SELF
from recollect.core.extract.arabic_words import CHECKS, SHORTHAND, fold
from recollect.core.extract.rules import LONGEST, Finding, Grammar, any_of, apply, table
from recollect.core.extract.topics import topic

GRAMMAR: Final = Grammar(
    name_end=re.compile(
        r"[،,؛;:.!؟?()«»\"“”\u2600-\u27bf\U0001f000-\U0010ffff]|\s[-–—]+\s"
        r"|\s(?:في|من|مع|منذ|لان|لكن|بس|عشان|حيث|التي|الذي|اللي|عندما|لما|قبل|بعد|الان|الحين|حاليا"
        r"|هذا|هذه|كل|حتي|علي|عند|عن|ثم|اكثر|بدل|بدلا|ايضا|هو|هي|و|الشهر|الاسبوع|السنه|العام|امس"
        r"|اليوم|موخرا|قريبا|اصلا|هالسنه|هالاسبوع|هالشهر|لو سمحت|رجاء|الماضي|ابدا|مطلقا|نهاييا"
        r"|لانه|لانها|لاني|لانني|لانهم)\b"
        r"|\sو(?:انا|اعمل|اشتغل|اسكن|اعيش|لا|ما|لدي|عندي|عمري|عمره|عمرها|احب|اكره|افضل|اريد|ادرس"
        r"|زوج|هو|هي|نحن|قد|كان|هذا|بنت|ولد|ابن|اخ|ام|اب|قليلا)\w*"
    ),
    clause_end=re.compile(
        r"[؛;!؟?()\u2600-\u27bf\U0001f000-\U0010ffff]|\.(?:\s|$)|\s[-–—]+\s|[،,] ?|\s(?:لان|لكن|بس"
        r"|عشان|ولكن|لذلك|ولذلك)\b"
    ),
    joint=re.compile(r"[،,] ?(?:و(?=[\u0620-\u064a]))?| (?:او|وايضا|و) | و(?=[\u0620-\u064a]{3,})"),
    last_joint=re.compile(r"او|و"),
    name_words=6,
)
_LONG: Final = GRAMMAR._replace(
    clause_end=re.compile(
        r"[؛;!؟?()\u2600-\u27bf\U0001f000-\U0010ffff]|\.(?:\s|$)|\s[-–—]+\s|\s(?:لان|لكن|بس|عشان|ولكن|لذلك|ولذلك)\b"
    )
)
_RULES: Final = tuple(
    rule
    for text in (SELF, MATTERS, OPEN, CHOICES, GOALS)
    for rule in table(text, SHORTHAND, CHECKS, prefix="(?:و|ف)??")
)
_ANY: Final = any_of(_RULES)
_LEAD: Final = re.compile(
    r"(?:(?:مرحبا|اهلا|السلام عليكم|صباح الخير|مساء الخير|بالمناسبه|علي فكره|للعلم|في الحقيقه"
    r"|الحقيقه|بصراحه|طيب|حسنا|اوكي|نعم|لا(?=،)|اي|تحديث|تصحيح|خبر جديد"
    r"|انا|نحن|احنا|الان|الحين|حاليا|لقد|قد|توني|توهم|للتو|موخرا|امس|البارحه|صرت|اصبحت|كذلك|ايضا"
    r"|ترا|تري|يا \w+|لاني|لانني|لاننا|لكني|لكنني|لكن|بس|اني|انني|واني|لاحظ ان|اعلم ان|تذكر ان"
    r"|للتذكير|عموما|المهم|خلاص|شكرا|فعلا|اصلا|منذ \w+ و|علما ان|علما بان)(?:،|:|\.)? )"
)
_START: Final = re.compile(
    r"[،,؛;:.] ?|(?<!انا) (?=[وف](?:انا|اعمل|اشتغل|اسكن|اعيش|لدي|عندي|عمري|احب|اكره|افضل|لا |ما "
    r"|قرر|اتفق|ادرس|اريد|ابي |ابغي|متزوج|نفضل|نريد|نخطط|اخطط|اتحدث|اجيد|مشرف|مدير|اخ[وتي]|ابن|بنت"
    r"|زوج|هدف|يجب|لم |سن|نحتاج|اسمي|ميزاني))|(?<! ما)(?<! لم)(?<! لو)(?<! هل)(?<!متي)(?<!اذا)"
    r"(?<!^ما)(?<!^لم) (?=(?:قررنا|اتفقنا|قررت|تقرر|وافقنا|اعتمدنا|اخترنا|شخصوني|شخصت) )| (?=و"
    r"(?:اب|ام) ل)| (?=(?:لاني|لانني|لكني|لكنني|بس|اني|انني|لكن) )"
)
_ASKING: Final = re.compile(
    r"(?:^|[،,؛:.] *|\s)(?:و|ف)?(?:هل|ما|ماذا|لماذا|متي|كيف|كم|اين|من|شو|وش|ايش|ليش|وين|منو|مين"
    r"|شلون|ممكن|يمكن|تعرف|اي|ايهما|ازاي|فين)\b"
)
_UNREAL: Final = re.compile(
    r"(?:^|\s)(?:و|ف)?(?:لو(?! سمحت)|اذا|لنفترض|افترض|تخيل|تخيلي|لنقل|فرضا|مثلا لو|ليتني|ياليت"
    r"|يا ليت|امزح|كنت|كان عندي|كان لدي)\b"
)
_REPORTED: Final = re.compile(
    r"(?:^|\s)(?:و|ف)?(?:قال|قالت|يقول|تقول|يقولون|قالوا|سال|سالني|يعتقد|تعتقد|زعم|كتب|مره واحد|يدعي)\b"
)
_ORDER = r"(?:احجز|ارسل|استخدم|اكتب|رتب|ذكرني|اعرض|اجب|رد|اشرح|اختصر|تجنب|خاطب|نادني|حول|اعط|قدم|ابدا|ضع|سجل|راجع)"
_STANDING: Final = (
    re.compile(
        rf"(?:[^؟]{{0,100}}[،,:] ?)?(?P<v>{_ORDER}\w* (?=[^؟]{{0,120}}(?:كلما امكن|دايما|دايما"
        rf"|دايم\b|كل مره|في المستقبل|من الان فصاعدا|القادمه|باستمرار))[^؟]{{3,160}})"
    ),
    re.compile(
        rf"(?:و)?(?:عندما|لما|كلما|اذا|حين|قبل ان) (?:\w+ ){{1,8}}?(?P<v>(?:فلا|لا|ف)? ?(?:{_ORDER}"
        rf"|ت(?:عطني|كتب|جب|ستخدم|شرح))\w* [^؟]{{3,160}})"
    ),
)
STARTS: Final = 32  # clauses of a sentence that are looked at


def find(sentence: str) -> Iterator[Finding]:
    """What a person's sentence says that is to be kept."""
    text, places = fold(sentence)
    standing = next((match for rule in _STANDING if (match := rule.match(text))), None)
    if standing:
        order = sentence[places[standing.start("v")] : places[standing.end("v") - 1] + 1].strip(" .،,")
        yield Finding(PREFERENCE, "instruction", order, sentence.strip(" .،,") if len(sentence) < LONGEST else order)
    text = _stated(text)
    reported = _REPORTED.search(text)
    taken: set[tuple[str, str]] = set()
    for start in islice(_starts(text), STARTS):
        if reported and start >= reported.start():
            return
        for found in _at(text, start, sentence, places):
            if (found.kind, found.value) not in taken and not (standing and found.kind == PREFERENCE):
                taken.add((found.kind, found.value))
                yield found


def agreed(sentence: str) -> Iterator[Finding]:
    """Decisions that the assistant repeats: only in so many words."""
    text, places = fold(sentence)
    text = _stated(text)
    for start in islice(_starts(text), STARTS):
        if re.match(r"و?(?:اتفقنا|قررنا)\b", text[start:]):
            yield from (found for found in _at(text, start, sentence, places) if found.kind == DECISION)


def _stated(text: str) -> str:
    if text.rstrip("\"')!").endswith(("?", "؟")):
        asking = _ASKING.search(text)
        text = text[: asking.start()] if asking else ""
    unreal = _UNREAL.search(text)
    return text[: unreal.start()] if unreal else text


def _starts(text: str) -> Iterator[int]:
    last = -1
    for match in (None, *_START.finditer(text)):
        start = match.end() if match else 0
        while lead := _LEAD.match(text, start):
            if start > last:
                yield start
            last, start = start, lead.end()
        if start > last:
            yield start
        last = max(last, start)


def _at(text: str, start: int, sentence: str, places: list[int]) -> Iterator[Finding]:
    kinds: set[tuple[str, str]] = set()
    for rule in _RULES if _ANY.match(text, start) else ():
        group = (rule.kind, "") if rule.kind != FACT else (rule.kind, "rel" if "{rel}" in rule.slot else rule.slot)
        if group in kinds:
            continue
        match = rule.pattern.match(text, start)
        if match is None:
            continue
        grammar = _LONG if rule.style == "long" else GRAMMAR
        used = rule._replace(style="clause") if rule.style == "long" else rule
        for found in apply(used, match, grammar, sentence, places):
            kinds.add(group)
            if found.kind == DECISION:
                slot = topic(fold(found.value)[0])
                found = found._replace(slot=slot or "decision", single=bool(slot))
            yield found
