"""Finds in English sentences what people say of themselves, want, decide and do not know yet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from recollect.core.extract_english_matters import CHOICES, MATTERS, ORDERS, PLAIN
from recollect.core.extract_english_self import OTHERS, SELF
from recollect.core.extract_english_values import CHECKS
from recollect.core.extract_english_words import IMPERATIVE, SHORTHAND
from recollect.core.extract_rules import Finding, Grammar, Rule, apply, table
from recollect.core.extract_topics import topic
from recollect.core.ledger import DECISION, FACT, PREFERENCE, QUESTION

_STOPS = (
    r"and|but|because|since|so|which|who|whose|where|when|while|whereas|if|though|although|after|before|until|unless|for now"
    r"|right now|now|these days|nowadays|currently|at the moment|anyway|actually|instead|anymore|any more|any longer"
    r"|with|by the way|btw|too|as well|please|thanks|as|that|then|this|last|next|every|rather|than|over|to be|just|already|at all|especially|particularly|mostly|more|way more|quite"
)
GRAMMAR: Final = Grammar(
    name_end=re.compile(
        rf"[;:!?()\"“”\u2600-\u27bf\U0001f000-\U0010ffff]|(?<!\bDr)(?<!\bMr)(?<!Mrs)(?<!Prof)(?<!\bSt)\.(?:\s|$)|,(?!\d{{3}})|\s[-–—]+\s|\s(?:{_STOPS}|or|for|from|about|on|to)\b|…|\.\.",
        re.I,
    ),
    clause_end=re.compile(
        r"[;!?()\u2600-\u27bf\U0001f000-\U0010ffff]|\s[-–—]+\s|,? (?:but|because|since(?! (?:\d|last|the|I was|childhood|(?-i:[A-HJ-Z])))|so that|though|although|while|cuz|btw)\b"
        r"|, (?:so|here|and|which|who|where|if|when|as|can|could|do|what|how|please|right|ok|okay|any|thanks|I|I'm|we|it|it's|that|then)\b"
        r"|,? and (?:I|I'm|I've|I'd|we|it|it's|that|my|was|need|would|want|can|could)\b|…|\.\.|, ?$",
        re.I,
    ),
    joint=re.compile(r",? (?:and|or|plus) (?:also |the )?|, ?|; ?| & ", re.I),
    last_joint=re.compile(r"\b(?:and|or|plus)\b|&", re.I),
    whole=re.compile(r"\w+ing\b|to \w+", re.I),
)


def _table(text: str) -> tuple[Rule, ...]:
    return table(text, SHORTHAND, CHECKS, flags=re.IGNORECASE)


_SELF: Final = _table(SELF)
_OTHERS: Final = _table(OTHERS)
_MATTERS: Final = _table(MATTERS)
_CHOICES: Final = _table(CHOICES)
_ORDERS: Final = _table(ORDERS)
_PLAIN: Final = _table(PLAIN)
_RULES: Final = {
    "self": (*_SELF, *_MATTERS, *_CHOICES, *_ORDERS, *_PLAIN),
    "my": (*_OTHERS, *_SELF, *_MATTERS, *_CHOICES, *_PLAIN),
    "rest": (*_MATTERS, *_CHOICES, *_ORDERS, *(rule for rule in _SELF if rule.kind == PREFERENCE), *_OTHERS, *_PLAIN),
}
_DANGLING: Final = re.compile(
    r"(?P<v>(?!it\b|this\b|that\b|there\b|I\b|he\b|she\b|they\b|we\b|my door|what's)[\w' /-]{3,60}?)(?:'s| is| are|:| remains?)(?: still| all)? (?:tbd|tbc|to be (?:decided|confirmed|determined|announced)|not (?:yet )?(?:decided|known|confirmed|final)(?: yet)?|undecided|unclear|not clear|unresolved|unsettled|open|an open question|pending|unknown(?: yet)?|missing|up in the air)(?=[,.!]|$)",
    re.IGNORECASE,
)
_ADVERBIAL: Final = re.compile(
    r"(?:after|since|in|on|at|during|last|this|yesterday|today|for|from|back in|earlier|before)\b[\w' ]{1,40}? (?=(?:we|I|I'm|I've|my|our)\b)",
    re.I,
)
_START: Final = re.compile(
    r"(?:[,;:(]|\s[-–—]+|\b(?:and|but|because|since|so|as|that|though|although|while|plus|cause|cuz|'cause)\b,?) +",
    re.I,
)
_LEAD: Final = re.compile(
    r"(?:(?:hi|hello|hey|well|oh|ok|okay|yes|yeah|yep|no|nope|so|and|but|also|actually|anyway|by the way|btw|fyi|just so you know"
    r"|for the record|please note that|note that|note:|please remember that|remember that|remember:|keep in mind that|important:|update|correction|as (?:you know|I said|mentioned)"
    r"|in fact|to be (?:honest|clear|fair)|honestly|personally|generally|usually|currently|right now|nowadays|these days|recently|lately"
    r"|now(?= I| my| we| our)|today|sure|great|thanks|thank you|cool|perfect|alright|sorry|plus|first|second|finally|also|unfortunately|luckily|speaking of which|one more thing|quick (?:note|update)"
    r"|(?:just )?to let you know|you should know(?: that)?|I should mention that|I forgot to mention(?: that)?|did I mention(?: that)?|a bit about me|about me|I wanted to tell you that|I think(?= (?:we|I'll))|since|because|given that|as)[,:.!]* +)",
    re.I,
)
_ASKING: Final = re.compile(
    r"(?:^|[,;.:–—-] *|\b(?:and|so|but|or) )(?:what|how|why|when|where|who|which|can|could|would|should|do|does|did|is|are|was|will|am"
    r"|has|any|got|isn't|don't|may|shall|won't|wouldn't|right|correct|ok|okay|have you|please)\b",
    re.I,
)
_UNREAL: Final = re.compile(
    r"\b(?:(?<!prefer )if|suppose|supposing|imagine|hypothetically|let's say|what if|pretend|wish I|as though|assuming|in theory|would have|could have|had I|role-?play"
    r"|in the (?:story|novel|book|movie|game)|just kidding|jk|/s|dream(?:ed|t) (?:that|I))\b",
    re.I,
)
_REPORTED: Final = re.compile(
    r"\b(?:he|she|they|people|everyone|someone|somebody|the (?!doctor|physician|report|study|survey)\w+|my (?!doctor)\w+|(?-i:[A-Z]\w+)) (?:thinks?|thought|says?|said|told|tells|believes?|assumes?|assumed|claims?|claimed|asked|asks|joked|wrote|writes)\b|\b(?:says?|said|asks?|asked|replied|replies|shouts?|shouted|wrote)\b ?[:,]",
    re.I,
)
_CONTRACTIONS: Final = {
    "im": "I'm", "ive": "I've", "dont": "don't", "cant": "can't", "lets": "let's", "thats": "that's", "shes": "she's",
    "hes": "he's", "isnt": "isn't", "doesnt": "doesn't", "havent": "haven't", "wont": "won't", "youre": "you're",
    "were gonna": "we're gonna", "were going": "we're going", "havnt": "haven't", "didnt": "didn't", "moms name": "mom's name",
    "dads name": "dad's name",
}  # fmt: skip
_SPELT: Final = re.compile(rf"\b(?:{'|'.join(_CONTRACTIONS)})\b", re.I)
_STANDING: Final = (
    re.compile(
        rf"(?:and |also )?(?:if|when|whenever|every time|each time|any time) (?:I|you|we|it|there)\b[^,?!]{{3,80}}, (?:please |just |then ){{0,2}}(?P<v>{IMPERATIVE} [^?!]{{3,160}})",
        re.I,
    ),
    re.compile(
        rf"(?:[^,?!]{{0,80}}, |[^:?!]{{0,80}}: )?(?:please |and |also |just ){{0,2}}(?P<v>{IMPERATIVE} (?=[^?!]{{0,120}}\b(?:always|whenever|every time|each time|by default|in (?:the |all )?future|from now on|going forward|at all times)\b)[^?!]{{3,160}})",
        re.I,
    ),
    re.compile(
        rf"(?:[^,?!]{{0,80}}, |[^:?!]{{0,80}}: )?(?:please |and |also |just ){{0,2}}(?P<v>(?:use|skip|avoid|drop|leave out|include|don't use|do not use|never use|no) (?:[\w-]+ ){{0,4}}(?:words|jargon|emojis?|bullet points?|sentences|introductions?|pleasantries|disclaimers|examples|headings|markdown|code comments|tabs|spelling|units|abbreviations|formatting|exclamation marks|em dashes|semicolons|type hints)\b[^?!]{{0,120}})",
        re.I,
    ),
)
_SETTLED: Final = re.compile(
    r"(?P<v>[^?!]{8,200}?),? (?:and )?(?:that's|that is|this is|it's) (?:what (?:we|I)(?:'ve| have)? (?:all )?(?:agreed|decided)(?: on| upon)?|decided|settled|final|agreed|a done deal)(?: now| then)?[.!]?$",
    re.I,
)
_WE_DECIDED: Final = re.compile(r"\bwe(?:'ve| have)? (?:already |all |both )?(?:agreed|decided)\b", re.I)
_BARE: Final = re.compile(
    r"(?:(?:also |still |currently |now )?(trying|planning|hoping|looking|thinking|working|aiming|saving|learning|allergic)|just (?:got|moved|started|bought|turned|became|adopted|finished|joined)|moved|got (?:diagnosed|married|engaged|promoted)|work (?:at|as|for)|live in|don't (?:eat|drink|like)|love|hate|prefer)\b(?! forward)",
    re.I,
)
_OPENERS: Final = (
    "i",
    "i'm",
    "im",
    "i've",
    "ive",
    "i'd",
    "i'll",
    "hi",
    "hello",
    "hey",
    "we",
    "we're",
    "we've",
    "we'll",
    "we'd",
)


def find(sentence: str) -> Iterator[Finding]:
    """What a person's sentence says that is to be kept."""
    sentence = _SPELT.sub(lambda match: _CONTRACTIONS[match[0].lower()], sentence)
    standing = set()
    for found in _standing(sentence):
        standing.add(found.kind)
        yield found
    text = _stated(sentence)
    if not text:
        return
    taken: set[str] = set()
    reported = _REPORTED.search(text)
    for start in _starts(text):
        if reported and start > reported.start():
            return
        for found in _at(text, start):
            if found.text not in taken and not (found.kind in standing):
                yield found
            taken |= {found.kind, found.text}
    settled = _SETTLED.match(text)
    if settled and DECISION not in taken:
        slot, told = topic(settled["v"]), settled["v"].strip(" .,")
        yield Finding(DECISION, slot or "decision", told, told, bool(slot))
    dangling = _DANGLING.match(text)
    if dangling and QUESTION not in taken:
        yield Finding(QUESTION, "open", dangling["v"].strip(), dangling[0].strip())


def agreed(sentence: str) -> Iterator[Finding]:
    """Decisions that the assistant repeats: only in so many words."""
    text = _stated(sentence)
    for match in _WE_DECIDED.finditer(text):
        yield from (found for found in _at(text, match.start()) if found.kind == DECISION)


def _standing(text: str) -> Iterator[Finding]:
    """Orders that hold from now on, and what is called settled."""
    for rule in _STANDING:
        if match := rule.match(text):
            yield Finding(PREFERENCE, "instruction", match["v"].strip(" .,"), match[0].strip(" .,"))
            return


def _stated(sentence: str) -> str:
    """The part of a sentence that states something: no question, nothing unreal."""
    text = sentence
    if text.rstrip("\"')!").endswith("?"):
        asking = _ASKING.search(text)
        if asking is None or asking[0].strip(" ,").lower() in ("right", "correct", "ok", "okay"):
            return ""
        text = text[: asking.start()]
    unreal = _UNREAL.search(text)
    if unreal:
        text = (
            ""
            if unreal.start() < 3 or unreal[0].lower() not in ("if", "let's say", "assuming")
            else text[: unreal.start()]
        )
    return text.strip()


def _starts(text: str) -> Iterator[int]:
    last = -1
    for match in (None, _ADVERBIAL.match(text), *_START.finditer(text)):
        start = match.end() if match else 0
        while lead := _LEAD.match(text, start):
            if start != last:
                yield start
            last, start = start, lead.end()
        if start > last:
            yield start
        last = max(last, start)


def _at(text: str, start: int) -> Iterator[Finding]:
    if start == 0 and (bare := _BARE.match(text)):
        text = ("I'm " if bare[1] else "I ") + text
    word = text[start : start + 12].split(" ", 1)[0].lower().rstrip(",.!")
    rules = _RULES["self"] if word in _OPENERS else _RULES["my"] if word == "my" else _RULES["rest"]
    kinds: set[tuple[str, str]] = set()
    for rule in rules:
        if rule.slot == "{x}" and any(kind == FACT for kind, _ in kinds) or (rule in _PLAIN and kinds):
            continue
        group = (rule.kind, "") if rule.kind != FACT else (rule.kind, "rel" if "{rel}" in rule.slot else rule.slot)
        if group in kinds:
            continue
        for found in apply(rule, text, start, GRAMMAR):
            kinds.add(group)
            if found.kind == DECISION:
                slot = topic(found.value)
                found = found._replace(slot=slot or "decision", single=bool(slot))
            yield found
