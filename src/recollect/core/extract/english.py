"""Finds ledger entries in English sentences: facts, preferences, decisions, goals and open points."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from recollect.core.compression.ledger import DECISION, FACT, PREFERENCE, QUESTION
from recollect.core.extract.decision_subject import find_decision_subject
from recollect.core.extract.english_checks import CHECKS
from recollect.core.extract.english_general_rules import DECISION_RULES, FALLBACK_RULES, ORDER_RULES, THING_RULES
from recollect.core.extract.english_people_rules import RELATIVE_RULES, SPEAKER_RULES
from recollect.core.extract.english_words import IMPERATIVE, SHORTHAND
from recollect.core.extract.rules import Grammar, Rule, RuleMatch, apply_rule, combine_patterns, parse_rules, word_set

_STOPS = (
    r"and|but|because|since|so|which|who|whose|where|when|while|whereas|if|though|although|after"
    r"|before|until|unless|for now"
    r"|right now|now|these days|nowadays|currently|at the moment|anyway|actually|instead|anymore|any more|any longer"
    r"|with|by the way|btw|too|as well|please|thanks|as|that|then|this|last|next|every|rather|than"
    r"|over|to be|just|already|at all|especially|particularly|mostly|more|way more|quite"
)
GRAMMAR: Final = Grammar(
    name_end=re.compile(
        rf"[;:!?()\"“”\u2600-\u27bf\U0001f000-\U0010ffff]|(?<!\bDr)(?<!\bMr)(?<!Mrs)(?<!Prof)"
        rf"(?<!\bSt)\.(?:\s|$)|,(?!\d{{3}})|\s[-–—]+\s|\s(?:{_STOPS}|or|for|from|about|on|to|in "
        rf"(?=\d|(?-i:January|February|March|April|May|June|July|August|September|October|November"
        rf"|December)))\b|…"
        rf"|\.\.",
        re.I,
    ),
    clause_end=re.compile(
        r"[;!?()\u2600-\u27bf\U0001f000-\U0010ffff]|\s[-–—]+\s|,? (?:but|because|since(?! (?:\d"
        r"|last|the|I was|childhood|(?-i:[A-HJ-Z])))|so that|though|although|while|cuz|btw)\b"
        r"|, (?:so|here|and|which|who|where|if|when|as|can|could|do|what|how|please|right|ok|okay"
        r"|any|thanks|I|I'm|we|it|it's|that|then)\b"
        r"|,? and (?:I|I'm|I've|I'd|we|it|it's|that|my|was|need|would|want|can|could)\b|…|\.\.|, ?$",
        re.I,
    ),
    joint=re.compile(r",? (?:and|or|plus) (?:also |the )?|, ?|; ?| & ", re.I),
    last_joint=re.compile(r"\b(?:and|or|plus)\b|&", re.I),
    whole=re.compile(r"\w+ing\b|to \w+", re.I),
)


def _parse(text: str) -> tuple[Rule, ...]:
    return parse_rules(text, SHORTHAND, CHECKS, flags=re.IGNORECASE)


_SPEAKER: Final = _parse(SPEAKER_RULES)
_RELATIVES: Final = _parse(RELATIVE_RULES)
_THINGS: Final = _parse(THING_RULES)
_DECISIONS: Final = _parse(DECISION_RULES)
_ORDERS: Final = _parse(ORDER_RULES)
# The rules in the order in which they are tried, by the first word of a clause. "fallback" is tried last.
_RULES: Final = {
    "first person": (*_SPEAKER, *_THINGS, *_DECISIONS, *_ORDERS),
    "my": (*_RELATIVES, *_SPEAKER, *_THINGS, *_DECISIONS),
    "other": (*_THINGS, *_DECISIONS, *_ORDERS, *(rule for rule in _SPEAKER if rule.kind == PREFERENCE), *_RELATIVES),
    "fallback": _parse(FALLBACK_RULES),
}
_ANY_RULE: Final = {name: combine_patterns(rules) for name, rules in _RULES.items()}
# "The venue is still TBD."
_UNSETTLED: Final = re.compile(
    r"(?P<v>(?!it\b|this\b|that\b|there\b|I\b|he\b|she\b|they\b|we\b|my door"
    r"|what's)[\w' /-]{3,60}?)(?:'s| is| are|:| remains?)(?: still| all)? (?:tbd|tbc|to be "
    r"(?:decided|confirmed|determined|announced)|not (?:yet )?(?:decided|known|confirmed|final)"
    r"(?: yet)?|undecided|unclear|not clear|unresolved|unsettled|open|an open question|pending"
    r"|unknown(?: yet)?|missing|up in the air)(?=[,.!]|$)",
    re.IGNORECASE,
)
# "After the trip we …"
_LEADING_ADVERBIAL: Final = re.compile(
    r"(?:after|since|in|on|at|during|last|this|yesterday|today|for|from|back in|earlier"
    r"|before)\b[\w' ]{1,40}? (?=(?:we|I|I'm|I've|my|our)\b)",
    re.I,
)
# The borders after which a clause may begin.
_CLAUSE_START: Final = re.compile(
    r"(?:[,;:(]|\s[-–—]+|\b(?:and|but|because|since|so|as|that|though|although|while|plus|cause|cuz|'cause)\b,?) +",
    re.I,
)
# Words that lead into a clause and say nothing.
_LEAD: Final = re.compile(
    r"(?:(?:hi|hello|hey|well|oh|ok|okay|yes|yeah|yep|no|nope|so|and|but|also|actually|anyway"
    r"|by the way|btw|fyi|just so you know"
    r"|for the record|please note that|note that|note:|please remember that|remember that"
    r"|remember:|keep in mind that|important:|update|correction|as (?:you know|I said|mentioned)"
    r"|in fact|to be (?:honest|clear|fair)|honestly|personally|generally|usually|currently"
    r"|right now|nowadays|these days|recently|lately"
    r"|now(?= I| my| we| our)|today|sure|great|thanks|thank you|cool|perfect|alright|sorry|plus"
    r"|first|second|finally|also|unfortunately|luckily|speaking of which|one more thing|quick "
    r"(?:note|update)"
    r"|(?:just )?to let you know|you should know(?: that)?|I should mention that"
    r"|I forgot to mention(?: that)?|did I mention(?: that)?|a bit about me|about me"
    r"|I wanted to tell you that|I think(?= (?:we|I'll))|since|because|given that|as)[,:.!]* +)",
    re.I,
)
_QUESTION_START: Final = re.compile(
    r"(?:^|[,;.:–—-] *|\b(?:and|so|but|or) )(?:what|how|why|when|where|who|which|can|could|would"
    r"|should|do|does|did|is|are|was|will|am"
    r"|has|any|got|isn't|don't|may|shall|won't|wouldn't|right|correct|ok|okay|have you|please)\b",
    re.I,
)
# Conditions, denials of having said something, fiction and jokes.
_UNREAL: Final = re.compile(
    r"\b(?:(?<!prefer )if|suppose|supposing|imagine|hypothetically|let's say|what if|pretend"
    r"|(?:never|didn't|did not|don't|wouldn't) (?:say|said|claim|claimed|think|mean|tell \w+|told \w+) (?:that )?I\b"
    r"|(?:false|not true|a lie|untrue|a rumou?r) (?:that|to say)|but I lied|I was lying"
    r"|(?:it's |it is )?not that I|in (?:my|a) dream|as the (?:song|saying|poem) goes|haha|lol"
    r"|wish I|as though|assuming|in theory|would have|could have|had I|role-?play"
    r"|in the (?:story|novel|book|movie|game)|just kidding|jk|/s|dream(?:ed|t) (?:that|I))\b",
    re.I,
)
# Words of other people.
_REPORTED: Final = re.compile(
    r"\b(?:he|she|they|people|everyone|someone|somebody|the (?!doctor|physician|report|study"
    r"|survey)\w+|my (?!doctor)\w+|(?-i:[A-Z]\w+)) (?:thinks?|thought|says?|said|told|tells"
    r"|believes?|assumes?|assumed|claims?|claimed|asked|asks|joked|wrote|writes)\b|\b(?:says?|said"
    r"|asks?|asked|replied|replies|shouts?|shouted|wrote)\b ?[:,]",
    re.I,
)
_MISSING_APOSTROPHES: Final = {
    "im": "I'm", "ive": "I've", "dont": "don't", "cant": "can't", "lets": "let's", "thats": "that's", "shes": "she's",
    "hes": "he's", "isnt": "isn't", "doesnt": "doesn't", "havent": "haven't", "wont": "won't", "youre": "you're",
    "were gonna": "we're gonna", "were going": "we're going", "didnt": "didn't", "moms name": "mom's name",
    "dads name": "dad's name",
}  # fmt: skip
_MISSPELT: Final = re.compile(rf"\b(?:{'|'.join(_MISSING_APOSTROPHES)})\b", re.I)
# Orders that hold from now on.
_STANDING_ORDERS: Final = (
    re.compile(
        rf"(?:and |also )?(?:if|when|whenever|every time|each time|any time) (?:I|you|we|it"
        rf"|there)\b[^,?!]{{3,80}}, (?:please |just |then ){{0,2}}"
        rf"(?P<v>{IMPERATIVE} [^?!]{{3,160}})",
        re.I,
    ),
    re.compile(
        rf"(?:[^,?!]{{0,80}}, |[^:?!]{{0,80}}: )?(?:please |and |also |just ){{0,2}}"
        rf"(?P<v>{IMPERATIVE} (?=[^?!]{{0,120}}\b(?:always|whenever|every time|each time|by default"
        rf"|in (?:the |all )?future|from now on|going forward|at all times)\b)[^?!]{{3,160}})",
        re.I,
    ),
    re.compile(
        r"(?:[^,?!]{0,80}, |[^:?!]{0,80}: )?(?:please |and |also |just ){0,2}(?P<v>(?:use"
        r"|skip|avoid|drop|leave out|include|don't use|do not use|never use|no) (?:[\w-]+ ){0,4}"
        r"(?:words|jargon|emojis?|bullet points?|sentences|introductions?|pleasantries|disclaimers"
        r"|examples|headings|markdown|code comments|tabs|spelling|units|abbreviations|formatting"
        r"|exclamation marks|em dashes|semicolons|type hints)\b[^?!]{0,120})",
        re.I,
    ),
)
# "…, that's what we agreed on."
_SETTLED: Final = re.compile(
    r"(?P<v>[^?!]{8,200}?),? (?:and )?(?:that's|that is|this is|it's) (?:what (?:we|I)(?:'ve"
    r"| have)? (?:all )?(?:agreed|decided)(?: on| upon)?|decided|settled|final|agreed|a done deal)"
    r"(?: now| then)?[.!]?$",
    re.I,
)
_WE_DECIDED: Final = re.compile(r"\bwe(?:'ve| have)? (?:already |all |both )?(?:agreed|decided)\b", re.I)
# Clauses without a subject, which means "I": "trying to quit smoking".
_WITHOUT_SUBJECT: Final = re.compile(
    r"(?:(?:also |still |currently |now )?(trying|planning|hoping|looking|thinking|working|aiming"
    r"|saving|learning|allergic)|just (?:got|moved|started|bought|turned|became|adopted|finished"
    r"|joined)|moved|got (?:diagnosed|married|engaged|promoted)|work (?:at|as|for)|live in|don't "
    r"(?:eat|drink|like)|love|hate|prefer)\b(?! forward)",
    re.I,
)
_FIRST_PERSON: Final = word_set("i i'm i've i'd i'll we we're we've we'll we'd hi hello hey")
_QUESTION_TAGS: Final = ("right", "correct", "ok", "okay")  # at the end they turn a statement into a question
MAX_CLAUSES: Final = 32  # of a sentence


def find_entries(sentence: str) -> Iterator[RuleMatch]:
    """Yield the entries in a sentence that a person wrote."""
    sentence = _MISSPELT.sub(lambda match: _MISSING_APOSTROPHES[match[0].lower()], sentence)
    order = next((match for pattern in _STANDING_ORDERS if (match := pattern.match(sentence))), None)
    if order:
        yield RuleMatch(PREFERENCE, "instruction", order["v"].strip(" .,"), order[0].strip(" .,"))
    text = _keep_asserted(sentence)
    reported = _REPORTED.search(text)
    seen_kinds: set[str] = set()
    seen_texts: set[str] = set()
    for start in islice(_clause_starts(text), MAX_CLAUSES):
        if reported and start > reported.start():
            return
        for entry in _match_clause(text, start):
            if entry.text not in seen_texts and not (order and entry.kind == PREFERENCE):
                yield entry
            seen_kinds.add(entry.kind)
            seen_texts.add(entry.text)
    settled = _SETTLED.match(text)
    if settled and DECISION not in seen_kinds:
        yield _set_decision_slot(RuleMatch(DECISION, "", settled["v"].strip(" .,"), settled["v"].strip(" .,")))
    unsettled = _UNSETTLED.match(text)
    if unsettled and QUESTION not in seen_kinds:
        yield RuleMatch(QUESTION, "open", unsettled["v"].strip(), unsettled[0].strip())


def find_agreements(sentence: str) -> Iterator[RuleMatch]:
    """Yield the decisions in an assistant's sentence that follow "we agreed" or "we decided"."""
    text = _keep_asserted(sentence)
    for match in islice(_WE_DECIDED.finditer(text), MAX_CLAUSES):
        yield from (entry for entry in _match_clause(text, match.start()) if entry.kind == DECISION)


def _keep_asserted(sentence: str) -> str:
    """Return the part of a sentence that states something, without questions and conditions."""
    text = sentence
    if text.rstrip("\"')!").endswith("?"):
        question = _QUESTION_START.search(text)
        if question is None or question[0].strip(" ,").lower() in _QUESTION_TAGS:
            return ""
        text = text[: question.start()]
    unreal = _UNREAL.search(text)
    if unreal:
        is_all_unreal = unreal.start() < 3 or unreal[0].lower() not in ("if", "let's say", "assuming")
        text = "" if is_all_unreal else text[: unreal.start()]
    return text.strip()


def _clause_starts(text: str) -> Iterator[int]:
    """Yield where clauses begin, both before and after the words that lead into them."""
    last = -1
    for border in (None, _LEADING_ADVERBIAL.match(text), *_CLAUSE_START.finditer(text)):
        start = border.end() if border else 0
        while lead := _LEAD.match(text, start):
            if start > last:
                yield start
            last, start = max(last, start), lead.end()
        if start > last:
            yield start
        last = max(last, start)


def _match_clause(text: str, start: int) -> Iterator[RuleMatch]:
    """Yield the entries of the clause that begins at `start`; those of fallback rules only if there are no others."""
    if start == 0 and (subjectless := _WITHOUT_SUBJECT.match(text)):
        text = ("I'm " if subjectless[1] else "I ") + text
    word = text[start : start + 12].split(" ", 1)[0].lower().rstrip(",.!")
    rule_set = "first person" if word in _FIRST_PERSON else "my" if word == "my" else "other"
    yield from _apply_rules(rule_set, text, start) or _apply_rules("fallback", text, start)


def _apply_rules(rule_set: str, text: str, start: int) -> list[RuleMatch]:
    """Return the entries of a clause by one set of rules: one of each kind, and facts of different slots."""
    done: set[tuple[str, str]] = set()
    entries: list[RuleMatch] = []
    if not _ANY_RULE[rule_set].match(text, start):
        return entries
    matches = [(rule, match) for rule in _RULES[rule_set] if (match := rule.pattern.match(text, start))]
    for rule, match in matches:
        group = (rule.kind, "" if rule.kind != FACT else "rel" if "{rel}" in rule.slot else rule.slot)
        if group in done or (rule.slot == "{x}" and any(kind == FACT for kind, _ in done)):
            continue
        new_entries = [_set_decision_slot(entry) for entry in apply_rule(rule, match, GRAMMAR)]
        entries += new_entries
        if new_entries:
            done.add(group)
    return entries


def _set_decision_slot(entry: RuleMatch) -> RuleMatch:
    """Return a decision with its subject as the slot, so that a later decision on it supersedes this one."""
    if entry.kind != DECISION:
        return entry
    slot = find_decision_subject(entry.value)
    return entry._replace(slot=slot or "decision", single=bool(slot))
