"""Finds ledger entries in Arabic sentences: standard Arabic, and the dialects of the Gulf, Egypt and the Levant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from recollect.core.compression.ledger import DECISION, FACT, PREFERENCE
from recollect.core.extract.arabic_rules import DECISION_RULES, GOAL_RULES, OPEN_RULES, SPEAKER_RULES, THING_RULES
from recollect.core.extract.arabic_words import CHECKS, SHORTHAND, normalise
from recollect.core.extract.decision_subject import find_decision_subject
from recollect.core.extract.rules import MAX_VALUE_CHARS, Grammar, RuleMatch, apply_rule, combine_patterns, parse_rules
from recollect.core.language import arabic_stemmer

_FIRST_PERSON_VERBS: Final = (
    "انا|اعمل|اشتغل|اسكن|اعيش|لدي|عندي|عمري|احب|اكره|افضل|اريد|ادرس|ابي|ابغي|اتمني|احتاج|استخدم|اتحدث"
    "|نحب|نفضل|نريد|نسكن"
)
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
    joint=re.compile(
        rf"(?!(?:[،,] ?| )و?(?:{_FIRST_PERSON_VERBS})\b)"  # no item, but the next clause: «، وأفضل …»
        r"(?:[،,] ?(?:و(?=[\u0620-\u064a]))?| (?:او|وايضا|و) | و(?=[\u0620-\u064a]{3,}))"
    ),
    last_joint=re.compile(r"او|و"),
    name_words=6,
)
# For rules of the style "long", whose clauses may contain commas.
_LONG_GRAMMAR: Final = GRAMMAR._replace(
    clause_end=re.compile(
        r"[؛;!؟?()\u2600-\u27bf\U0001f000-\U0010ffff]|\.(?:\s|$)|\s[-–—]+\s|\s(?:لان|لكن|بس|عشان|ولكن|لذلك|ولذلك)\b"
    )
)
_RULES: Final = tuple(
    rule
    for text in (SPEAKER_RULES, THING_RULES, OPEN_RULES, DECISION_RULES, GOAL_RULES)
    for rule in parse_rules(text, SHORTHAND, CHECKS, prefix="(?:و|ف)??")
)
_ANY_RULE: Final = combine_patterns(_RULES)
# Words that lead into a clause and say nothing.
_LEAD: Final = re.compile(
    r"(?:(?:مرحبا|اهلا|السلام عليكم|صباح الخير|مساء الخير|بالمناسبه|علي فكره|للعلم|في الحقيقه"
    r"|الحقيقه|بصراحه|طيب|حسنا|اوكي|نعم|لا(?=،)|اي|تحديث|تصحيح|خبر جديد"
    r"|انا|نحن|احنا|الان|الحين|حاليا|لقد|قد|توني|توهم|للتو|موخرا|امس|البارحه|صرت|اصبحت|كذلك|ايضا"
    r"|ترا|تري|يا \w+|لاني|لانني|لاننا|لكني|لكنني|لكن|بس|اني|انني|واني|لاحظ ان|اعلم ان|تذكر ان"
    r"|للتذكير|عموما|المهم|خلاص|شكرا|فعلا|اصلا|منذ \w+ و|علما ان|علما بان)(?:،|:|\.)? )"
)
# The borders after which a clause may begin.
_CLAUSE_START: Final = re.compile(
    r"[،,؛;:.] ?|(?<!انا) (?=[وف](?:انا|اعمل|اشتغل|اسكن|اعيش|لدي|عندي|عمري|احب|اكره|افضل|لا |ما "
    r"|قرر|اتفق|ادرس|اريد|ابي |ابغي|متزوج|نفضل|نريد|نخطط|اخطط|اتحدث|اجيد|مشرف|مدير|اخ[وتي]|ابن|بنت"
    r"|زوج|هدف|يجب|لم |سن|نحتاج|اسمي|ميزاني))|(?<! ما)(?<! لم)(?<! لو)(?<! هل)(?<!متي)(?<!اذا)"
    r"(?<!^ما)(?<!^لم) (?=(?:قررنا|اتفقنا|قررت|تقرر|وافقنا|اعتمدنا|اخترنا|شخصوني|شخصت) )| (?=و"
    r"(?:اب|ام) ل)| (?=(?:لاني|لانني|لكني|لكنني|بس|اني|انني|لكن) )"
)
_QUESTION_START: Final = re.compile(
    r"(?:^|[،,؛:.] *|\s)(?:و|ف)?(?:هل|ما|ماذا|لماذا|متي|كيف|كم|اين|من|شو|وش|ايش|ليش|وين|منو|مين"
    r"|شلون|ممكن|يمكن|تعرف|اي|ايهما|ازاي|فين)\b"
)
# Conditions, wishes and jokes.
_UNREAL: Final = re.compile(
    r"(?:^|\s)(?:و|ف)?(?:لو(?! سمحت)|اذا|لنفترض|افترض|تخيل|تخيلي|لنقل|فرضا|مثلا لو|ليتني|ياليت"
    r"|يا ليت|امزح|كنت|كان عندي|كان لدي)\b"
)
# Words of other people.
_REPORTED: Final = re.compile(
    r"(?:^|\s)(?:و|ف)?(?:قال|قالت|يقول|تقول|يقولون|قالوا|سال|سالني|يعتقد|تعتقد|زعم|كتب|مره واحد|يدعي)\b"
)
_IMPERATIVES = (
    r"(?:احجز|ارسل|استخدم|اكتب|رتب|ذكرني|اعرض|اجب|رد|اشرح|اختصر|تجنب|خاطب|نادني|حول|اعط|قدم|ابدا|ضع|سجل|راجع)"
)
# Orders that hold from now on.
_STANDING_ORDERS: Final = (
    re.compile(
        rf"(?:[^؟]{{0,100}}[،,:] ?)?(?P<v>{_IMPERATIVES}\w* (?=[^؟]{{0,120}}(?:كلما امكن|دايما|دايما"
        rf"|دايم\b|كل مره|في المستقبل|من الان فصاعدا|القادمه|باستمرار))[^؟]{{3,160}})"
    ),
    re.compile(
        rf"(?:و)?(?:عندما|لما|كلما|اذا|حين|قبل ان) (?:\w+ ){{1,8}}?(?P<v>(?:فلا|لا|ف)? ?(?:{_IMPERATIVES}"
        rf"|ت(?:عطني|كتب|جب|ستخدم|شرح))\w* [^؟]{{3,160}})"
    ),
)
MAX_CLAUSES: Final = 32  # of a sentence


def find_entries(sentence: str) -> Iterator[RuleMatch]:
    """Yield the entries in a sentence that a person wrote."""
    text, positions = normalise(sentence)
    order = next((match for pattern in _STANDING_ORDERS if (match := pattern.match(text))), None)
    if order:
        value = sentence[positions[order.start("v")] : positions[order.end("v") - 1] + 1].strip(" .،,")
        whole = sentence.strip(" .،,") if len(sentence) < MAX_VALUE_CHARS else value
        yield RuleMatch(PREFERENCE, "instruction", value, whole)
    text = _keep_asserted(text)
    reported = _REPORTED.search(text)
    seen: set[tuple[str, str]] = set()
    for start in islice(_clause_starts(text), MAX_CLAUSES):
        if reported and start >= reported.start():
            return
        for entry in _match_clause(text, start, sentence, positions):
            if (entry.kind, entry.value) not in seen and not (order and entry.kind == PREFERENCE):
                seen.add((entry.kind, entry.value))
                yield entry


def find_agreements(sentence: str) -> Iterator[RuleMatch]:
    """Yield the decisions in an assistant's sentence that begin with "we agreed" or "we decided"."""
    text, positions = normalise(sentence)
    text = _keep_asserted(text)
    for start in islice(_clause_starts(text), MAX_CLAUSES):
        if re.match(r"و?(?:اتفقنا|قررنا)\b", text[start:]):
            yield from (entry for entry in _match_clause(text, start, sentence, positions) if entry.kind == DECISION)


def _keep_asserted(text: str) -> str:
    """Return the beginning of a sentence up to a question or a condition."""
    if text.rstrip("\"')!").endswith(("?", "؟")):
        question = _QUESTION_START.search(text)
        text = text[: question.start()] if question else ""
    unreal = _UNREAL.search(text)
    return text[: unreal.start()] if unreal else text


def _clause_starts(text: str) -> Iterator[int]:
    """Yield where clauses begin, both before and after the words that lead into them."""
    last = -1
    for border in (None, *_CLAUSE_START.finditer(text)):
        start = border.end() if border else 0
        while lead := _LEAD.match(text, start):
            if start > last:
                yield start
            last, start = start, lead.end()
        if start > last:
            yield start
        last = max(last, start)


def _match_clause(text: str, start: int, sentence: str, positions: list[int]) -> Iterator[RuleMatch]:
    """Yield the entries of the clause that begins at `start`: one of each kind, and facts of different slots."""
    done: set[tuple[str, str]] = set()
    for rule in _RULES if _ANY_RULE.match(text, start) else ():
        group = (rule.kind, "") if rule.kind != FACT else (rule.kind, "rel" if "{rel}" in rule.slot else rule.slot)
        if group in done:
            continue
        match = rule.pattern.match(text, start)
        if match is None:
            continue
        grammar = _LONG_GRAMMAR if rule.style == "long" else GRAMMAR
        styled_rule = rule._replace(style="clause") if rule.style == "long" else rule
        for entry in apply_rule(styled_rule, match, grammar, sentence, positions):
            done.add(group)
            if entry.text and arabic_stemmer.has_conjunction(normalise(entry.text.split()[0])[0]):
                entry = entry._replace(text=entry.text[1:])
            if entry.kind == DECISION:
                slot = find_decision_subject(normalise(entry.value)[0])
                entry = entry._replace(slot=slot or "decision", single=bool(slot))
            yield entry
