"""Finds in English sentences what people say of themselves, want, decide and do not know yet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from recollect.core.compression.ledger import DECISION, FACT, PREFERENCE, QUESTION
from recollect.core.extract.english_matters import CHOICES, MATTERS, ORDERS, PLAIN
from recollect.core.extract.english_self import OTHERS, SELF
from recollect.core.extract.english_values import CHECKS
from recollect.core.extract.english_words import IMPERATIVE, SHORTHAND
from recollect.core.extract.rules import Finding, Grammar, Rule, any_of, apply, table, words
from recollect.core.extract.topics import topic

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


def _table(text: str) -> tuple[Rule, ...]:
    return table(text, SHORTHAND, CHECKS, flags=re.IGNORECASE)


_SELF: Final = _table(SELF)
_OTHERS: Final = _table(OTHERS)
_MATTERS: Final = _table(MATTERS)
_CHOICES: Final = _table(CHOICES)
_ORDERS: Final = _table(ORDERS)
_PLAIN: Final = _table(PLAIN)
_RULES: Final = {
    "self": (*_SELF, *_MATTERS, *_CHOICES, *_ORDERS),
    "my": (*_OTHERS, *_SELF, *_MATTERS, *_CHOICES),
    "rest": (*_MATTERS, *_CHOICES, *_ORDERS, *(rule for rule in _SELF if rule.kind == PREFERENCE), *_OTHERS),
    "plain": _PLAIN,
}
_ANY: Final = {name: any_of(rules) for name, rules in _RULES.items()}
_DANGLING: Final = re.compile(
    r"(?P<v>(?!it\b|this\b|that\b|there\b|I\b|he\b|she\b|they\b|we\b|my door"
    r"|what's)[\w' /-]{3,60}?)(?:'s| is| are|:| remains?)(?: still| all)? (?:tbd|tbc|to be "
    r"(?:decided|confirmed|determined|announced)|not (?:yet )?(?:decided|known|confirmed|final)"
    r"(?: yet)?|undecided|unclear|not clear|unresolved|unsettled|open|an open question|pending"
    r"|unknown(?: yet)?|missing|up in the air)(?=[,.!]|$)",
    re.IGNORECASE,
)
_ADVERBIAL: Final = re.compile(
    r"(?:after|since|in|on|at|during|last|this|yesterday|today|for|from|back in|earlier"
    r"|before)\b[\w' ]{1,40}? (?=(?:we|I|I'm|I've|my|our)\b)",
    re.I,
)
_START: Final = re.compile(
    r"(?:[,;:(]|\s[-–—]+|\b(?:and|but|because|since|so|as|that|though|although|while|plus|cause|cuz|'cause)\b,?) +",
    re.I,
)
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
_ASKING: Final = re.compile(
    r"(?:^|[,;.:–—-] *|\b(?:and|so|but|or) )(?:what|how|why|when|where|who|which|can|could|would"
    r"|should|do|does|did|is|are|was|will|am"
    r"|has|any|got|isn't|don't|may|shall|won't|wouldn't|right|correct|ok|okay|have you|please)\b",
    re.I,
)
_UNREAL: Final = re.compile(
    r"\b(?:(?<!prefer )if|suppose|supposing|imagine|hypothetically|let's say|what if|pretend"
    r"|(?:never|didn't|did not|don't|wouldn't) (?:say|said|claim|claimed|think|mean|tell \w+|told \w+) (?:that )?I\b"
    r"|(?:false|not true|a lie|untrue|a rumou?r) (?:that|to say)|but I lied|I was lying"
    r"|(?:it's |it is )?not that I|in (?:my|a) dream|as the (?:song|saying|poem) goes|haha|lol"
    r"|wish I|as though|assuming|in theory|would have|could have|had I|role-?play"
    r"|in the (?:story|novel|book|movie|game)|just kidding|jk|/s|dream(?:ed|t) (?:that|I))\b",
    re.I,
)
_REPORTED: Final = re.compile(
    r"\b(?:he|she|they|people|everyone|someone|somebody|the (?!doctor|physician|report|study"
    r"|survey)\w+|my (?!doctor)\w+|(?-i:[A-Z]\w+)) (?:thinks?|thought|says?|said|told|tells"
    r"|believes?|assumes?|assumed|claims?|claimed|asked|asks|joked|wrote|writes)\b|\b(?:says?|said"
    r"|asks?|asked|replied|replies|shouts?|shouted|wrote)\b ?[:,]",
    re.I,
)
_CONTRACTIONS: Final = {
    "im": "I'm", "ive": "I've", "dont": "don't", "cant": "can't", "lets": "let's", "thats": "that's", "shes": "she's",
    "hes": "he's", "isnt": "isn't", "doesnt": "doesn't", "havent": "haven't", "wont": "won't", "youre": "you're",
    "were gonna": "we're gonna", "were going": "we're going", "didnt": "didn't", "moms name": "mom's name",
    "dads name": "dad's name",
}  # fmt: skip
_SPELT: Final = re.compile(rf"\b(?:{'|'.join(_CONTRACTIONS)})\b", re.I)
_STANDING: Final = (
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
_SETTLED: Final = re.compile(
    r"(?P<v>[^?!]{8,200}?),? (?:and )?(?:that's|that is|this is|it's) (?:what (?:we|I)(?:'ve"
    r"| have)? (?:all )?(?:agreed|decided)(?: on| upon)?|decided|settled|final|agreed|a done deal)"
    r"(?: now| then)?[.!]?$",
    re.I,
)
_WE_DECIDED: Final = re.compile(r"\bwe(?:'ve| have)? (?:already |all |both )?(?:agreed|decided)\b", re.I)
_BARE: Final = re.compile(
    r"(?:(?:also |still |currently |now )?(trying|planning|hoping|looking|thinking|working|aiming"
    r"|saving|learning|allergic)|just (?:got|moved|started|bought|turned|became|adopted|finished"
    r"|joined)|moved|got (?:diagnosed|married|engaged|promoted)|work (?:at|as|for)|live in|don't "
    r"(?:eat|drink|like)|love|hate|prefer)\b(?! forward)",
    re.I,
)
_FIRST_PERSON: Final = words("i i'm i've i'd i'll we we're we've we'll we'd hi hello hey")
_TAGS: Final = ("right", "correct", "ok", "okay")  # ask whether what was said is so
STARTS: Final = 32  # clauses of a sentence that are looked at


def find(sentence: str) -> Iterator[Finding]:
    """What a person's sentence says that is to be kept."""
    sentence = _SPELT.sub(lambda match: _CONTRACTIONS[match[0].lower()], sentence)
    order = next((match for rule in _STANDING if (match := rule.match(sentence))), None)
    if order:
        yield Finding(PREFERENCE, "instruction", order["v"].strip(" .,"), order[0].strip(" .,"))
    text = _stated(sentence)
    reported = _REPORTED.search(text)
    kinds: set[str] = set()
    told: set[str] = set()
    for start in islice(_starts(text), STARTS):
        if reported and start > reported.start():
            return
        for found in _at(text, start):
            if found.text not in told and not (order and found.kind == PREFERENCE):
                yield found
            kinds.add(found.kind)
            told.add(found.text)
    settled = _SETTLED.match(text)
    if settled and DECISION not in kinds:
        yield _decision(Finding(DECISION, "", settled["v"].strip(" .,"), settled["v"].strip(" .,")))
    dangling = _DANGLING.match(text)
    if dangling and QUESTION not in kinds:
        yield Finding(QUESTION, "open", dangling["v"].strip(), dangling[0].strip())


def agreed(sentence: str) -> Iterator[Finding]:
    """Decisions that the assistant repeats: only in so many words."""
    text = _stated(sentence)
    for match in islice(_WE_DECIDED.finditer(text), STARTS):
        yield from (found for found in _at(text, match.start()) if found.kind == DECISION)


def _stated(sentence: str) -> str:
    """The part of a sentence that states something: no question, nothing unreal."""
    text = sentence
    if text.rstrip("\"')!").endswith("?"):
        asking = _ASKING.search(text)
        if asking is None or asking[0].strip(" ,").lower() in _TAGS:
            return ""
        text = text[: asking.start()]
    unreal = _UNREAL.search(text)
    if unreal:
        begins = unreal.start() < 3 or unreal[0].lower() not in ("if", "let's say", "assuming")
        text = "" if begins else text[: unreal.start()]
    return text.strip()


def _starts(text: str) -> Iterator[int]:
    """Where clauses begin, before and behind the words that lead into them."""
    last = -1
    for match in (None, _ADVERBIAL.match(text), *_START.finditer(text)):
        start = match.end() if match else 0
        while lead := _LEAD.match(text, start):
            if start > last:
                yield start
            last, start = max(last, start), lead.end()
        if start > last:
            yield start
        last = max(last, start)


def _at(text: str, start: int) -> Iterator[Finding]:
    """What the clause that begins here says; plain facts only if it says nothing else."""
    if start == 0 and (bare := _BARE.match(text)):
        text = ("I'm " if bare[1] else "I ") + text
    word = text[start : start + 12].split(" ", 1)[0].lower().rstrip(",.!")
    found = _matching("self" if word in _FIRST_PERSON else "my" if word == "my" else "rest", text, start)
    yield from found or _matching("plain", text, start)


def _matching(name: str, text: str, start: int) -> list[Finding]:
    """One finding of a kind is enough for a clause; facts may be several, of different slots."""
    done: set[tuple[str, str]] = set()
    findings: list[Finding] = []
    if not _ANY[name].match(text, start):
        return findings
    matches = [(rule, match) for rule in _RULES[name] if (match := rule.pattern.match(text, start))]
    for rule, match in matches:
        group = (rule.kind, "" if rule.kind != FACT else "rel" if "{rel}" in rule.slot else rule.slot)
        if group in done or (rule.slot == "{x}" and any(kind == FACT for kind, _ in done)):
            continue
        found = [_decision(finding) for finding in apply(rule, match, GRAMMAR)]
        findings += found
        if found:
            done.add(group)
    return findings


def _decision(finding: Finding) -> Finding:
    """With the slot that a later decision on the same matter would have."""
    if finding.kind != DECISION:
        return finding
    slot = topic(finding.value)
    return finding._replace(slot=slot or "decision", single=bool(slot))
