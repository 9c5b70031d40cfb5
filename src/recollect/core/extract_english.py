"""Rules for English: what people say of themselves, want, decide and do not know yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from recollect.core.extract_english_words import (
    EVENTS,
    FEELINGS,
    JOBS,
    NATIONS,
    POSSESSIONS,
    RELATIVES,
    THINGS,
    TRAITS,
    is_job,
    is_place,
    is_proper,
    is_person,
)
from recollect.core.extract_rules import WHOLE, Finding, Grammar, Rule, apply
from recollect.core.extract_topics import topic
from recollect.core.ledger import DECISION, FACT, INTENT, PREFERENCE, QUESTION

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

_SHORTHAND: Final = {
    "I'm": r"I(?:'m| am)",
    "I've": r"I(?:'ve| have)?",
    "I'd": r"(?:I|we)(?:'d| would)",
    "we're": r"we(?:'re| are)",
    "we've": r"we(?:'ve| have)?",
    "don't": r"(?:do not|don't)",
    "can't": r"(?:can ?not|can't)",
    "~": r"(?:(?:really|currently|now|also|just|still|actually|always|usually|mostly|mainly|personally|definitely|finally"
    r"|recently|already|only|generally|normally|typically|strongly|much|absolutely|officially|probably|tend to) ){0,2}",
    " is ": r"(?:'s| is| are|'re| was| will be) (?:now |actually |currently |still |also )?",
    "MY": r"(?:my|our|the)",
    "REL": rf"(?P<rel>(?:(?:older|younger|little|big|eldest|twin|late|best|ex) |ex-)?(?:{RELATIVES}))",
    "NAME": r"(?:,? (?P<who>(?-i:[A-Z][\w'-]{1,20}(?: [A-Z][\w'-]{1,20})?)),?)?",
    "ANY": r"[\w' /-]{1,40}?",
}


def _compile(pattern: str) -> re.Pattern[str]:
    for short, full in _SHORTHAND.items():
        pattern = pattern.replace(short, full)
    return re.compile(pattern, re.IGNORECASE)


def _many(
    kind: str, slot: str, pattern: str, text: str = "", style: str = "name", check: Callable[[str], bool] | None = None
) -> Rule:
    return Rule(kind, slot, _compile(pattern), text, style, check=check)


def _one(
    kind: str, slot: str, pattern: str, text: str = "", style: str = "name", check: Callable[[str], bool] | None = None
) -> Rule:
    return Rule(kind, slot, _compile(pattern), text, style, single=True, check=check)


def _over(slot: str, pattern: str, text: str = "", kind: str = FACT) -> Rule:
    return Rule(kind, slot, _compile(pattern), text, ends=True)


def _words(count: int, *, at_least: int = 1) -> Callable[[str], bool]:
    return lambda value: at_least <= len(value.split()) <= count


def _is_liked(value: str) -> bool:
    words = value.lower().split()
    return words[0] not in _NOT_LIKED and len(value) > 2 and not {"it", "that", "them", "this", "you"} & set(words[:4])


_NOT_LIKED: Final = frozenset(
    """it that this them those these how what the your you him her his their idea ideas sound sounds seeing hearing if when
    where so your to being on in at from for with about i i'm thanks all both either everything anything something one some me my our us we any as well too such every its a""".split()
)
_DATED: Final = re.compile(
    r"\d|\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september|october|november|december|tomorrow|midnight|noon)\b",
    re.I,
)


def _is_dated(value: str) -> bool:
    return _DATED.search(value) is not None


def _is_specific(value: str) -> bool:
    """Holds a number, a date or a name."""
    return _is_dated(value) or any(word[:1].isupper() and word not in ("I", "I'm") for word in value.split()[1:])


_REQUEST: Final = re.compile(
    r"(?:some |more |a few |any |new |good |your ){0,3}(?:\w+ ){0,2}?(?:tips|advice|guidance|information|info|ideas|recommendations|suggestions|help|insights?|resources|inspiration|input|feedback)\b"
    r"|(?:get|find|hear|have) (?:some |more |your |a few |any |a |an ){0,2}(?:\w+ )?(?:tips|advice|guidance|information|info|ideas|recommendations|suggestions|help|insights?|inspiration|input|feedback|idea)\b",
    re.I,
)
_VAGUE: Final = re.compile(r"(?:it|that|this|them|these|those|him|you|your|something|things|stuff|ones)$", re.I)


def _is_goal(value: str) -> bool:
    """Says what, in words that stand for themselves."""
    words = value.split()
    if _REQUEST.match(value):
        return False
    return (
        len(words) > 1
        and not any(_VAGUE.match(word) for word in words[:4] if word != "this" or word is words[-1])
        and words[-1] not in ("few", "some", "a", "the")
    )


_IMPERATIVE = (
    r"(?:book|send|give|show|use|skip|write|add|include|start|end|put|format|remind|keep|avoid|address|reply|answer|explain|call|cite|convert"
    r"|(?:don't|do not|never|always) (?:use|give|send|show|write|add|include|put|call|tell|ask|assume|start|end|mention|answer|reply|explain|make|skip|suggest|apologi[sz]e)|leave|list|number|highlight|round|quote|translate|drop|mention|assume|ask|tell|stop|respond|make)"
)
_AGO: Final = re.compile(
    r"\b(?:last (?:week|month|year|summer|winter|spring|fall|autumn|night|weekend)|ago|yesterday|in (?:19|20)\d\d)\b",
    re.I,
)


def _is_event(value: str) -> bool:
    """Something that happened, with its time."""
    return _is_goal(value) and (_is_dated(value) or _AGO.search(value) is not None) and len(value.split()) > 3


def _is_trait(value: str) -> bool:
    first = value.split()[0].lower()
    return first not in FEELINGS or (first in ("a", "an") and _is_specific(value))


def _is_sum(value: str) -> bool:
    return re.search(r"\d|\b(?:hundred|thousand|million|billion|grand)\b", value, re.I) is not None


def _is_scheduled(value: str) -> bool:
    """On a day, not merely at an hour."""
    return re.search(r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:january|february|march|april|may|june|july|august|september|october|november|december)\b|\d{1,2}(?:st|nd|rd|th)\b|next (?:week|month|year))", value, re.I) is not None


_UNWANTED = (
    r"(?!(?:know|ask|see|hear|say|thank|talk|understand|make sure|be|go (?:to bed|now|home|to sleep)|sleep|eat|leave|admit|tell|mention|share"
    r"|note|add|clarify|discuss|confirm|check|think|believe|remind|emphasi[sz]e|point out|get back|have to|say|congratulate"
    r"|apologi[sz]e|chat|hear|wish|do (?:that|it|this)|it|that|this|you|chill|relax|rest|run|cry|die|hug|use the bathroom|like)\b)"
)

# Of the speaker alone, in the first person.
_SELF: Final = (
    _over(
        "home",
        r"I (?:no longer live|used to live|don't ~live) in (?=.{1,60}(?<!\w)(?:any ?more|any longer)|(?<=no longer live in )|(?<=used to live in ))",
        "no longer lives in {v}",
    ),
    _one(FACT, "home", r"(?:I|we) ~(?:live|reside) (?:in|near|outside|at) ", "lives in {v}", check=is_place),
    _one(
        FACT,
        "home",
        r"I'm ~(?:living|based|located|residing|settled) (?:in|near|out of) ",
        "lives in {v}",
        check=is_place,
    ),
    _one(
        FACT,
        "home",
        r"I've (?:been living|lived) in (?=.{1,60}(?:since|for|all my life|my whole life))",
        "lives in {v}",
        check=is_place,
    ),
    _one(
        FACT,
        "home",
        r"(?:I|we)(?:'ve|'re| have)? ~(?:moved|relocated) (?:back |over |house |home )?(?:from [\w' ]{1,30} )?to ",
        "moved to {v}",
        check=is_place,
    ),
    _one(FACT, "home", r"my (?:home|house|apartment|flat) is in ", "lives in {v}", check=is_place),
    _one(FACT, "address", r"my (?:home |postal |mailing |new )?address is ", "address {v}", "clause"),
    _one(
        FACT,
        "origin",
        r"(?:I'm ~(?:originally )?from|I ~(?:come|hail) from|I was born and raised in|I was (?:born|raised) in|I grew up in) (?=\D)",
        "from {v}",
        check=is_place,
    ),
    _over(
        "employer",
        r"I (?:no longer work|quit|left|resigned from) (?:my (?:job|position|role) )?(?:(?:at|for|with) )?(?=(?-i:[A-Z]))",
        "no longer works at {v}",
    ),
    _over("employer", r"I don't work (?:at|for) (?=.{1,60}any ?(?:more|longer))", "no longer works at {v}"),
    _one(
        FACT,
        "employer",
        r"I ~work (?:as an? (?P<job>[\w -]{2,40}?) )?(?:at|for|with) ",
        "works at {v}",
        check=is_proper,
    ),
    _one(
        FACT,
        "employer",
        r"I'm ~(?:working|employed|interning) (?:as an? [\w -]{2,40}? )?(?:at|for|by|with) ",
        "works at {v}",
        check=is_proper,
    ),
    _one(
        FACT,
        "employer",
        r"I've ~(?:been working|worked) (?:at|for) (?=.{1,60}\b(?:since|for)\b)",
        "works at {v}",
        check=is_proper,
    ),
    _one(
        FACT,
        "employer",
        r"I've? ~(?:joined|(?:started|got|landed|accepted|took) (?:working |work |a new job |a job |the job |a new position |an offer |a position |the offer |a role )?(?:at|from|with)) ",
        "works at {v}",
        check=is_proper,
    ),
    _one(
        FACT,
        "employer",
        rf"I'm ~(?:an? |the )(?:[\w-]+ ){{0,3}}(?:{'|'.join(sorted(JOBS))}) (?:at|for|with) ",
        "works at {v}",
        check=is_proper,
    ),
    _one(FACT, "job", r"I ~work as (?:an? |the )?", "works as {v}"),
    _one(FACT, "job", r"I'm ~(?:working|employed) as (?:an? |the )?", "works as {v}"),
    _one(FACT, "job", r"I'm ~(?:an? |the )", "is a {v}", check=is_job),
    _one(
        FACT,
        "job",
        r"I've? ~(?:(?:been |got |was )?promoted to|became|become|started (?:a new job )?as) (?:an? |the )?",
        "works as {v}",
        check=is_job,
    ),
    _one(
        FACT,
        "job",
        r"my (?:job|profession|occupation|job title|role|title|position) is (?:an? |the |as an? )?",
        "job: {v}",
        check=_words(6),
    ),
    _many(
        FACT,
        "job",
        r"I(?:'ve)? ~(?:run|own|manage|lead|founded|started|opened|have) (?=(?:an?|my own|the|our|my|two|three) (?:[\w'-]+ ){0,3}?(?:company|business|shop|restaurant|store|startup|start-up|agency|clinic|team|farm|school|blog|channel|podcast|studio|bakery|caf[eé]|firm|bookstore|non-?profit|gym|department|hotel|consultancy|charity)\b)",
        "",
        "name",
    ),
    _many(
        FACT,
        "work",
        r"I ~work (?=from home|remotely|part[- ]time|full[- ]time|night shifts?|in [a-z]|on )",
        "works {v}",
        "clause",
        check=_words(8),
    ),
    _many(
        FACT,
        "studies",
        r"I(?:'m| am)? ~(?:stud(?:y|ying|ied)|major(?:ing|ed)? in) (?!for\b|hard|tonight|all|today|a lot|in the|the same)",
        "studies {v}",
        "name",
    ),
    _many(
        FACT,
        "studies",
        r"I(?:'m| am| have|'ve got| did| got)? ~(?:doing|pursuing|finishing|writing|completing|taking|earning)? ?(?=(?:an?|my) (?:\w+ )?(?:BSc|MSc|BA|MA|PhD|MBA|master's|bachelor's|doctorate|(?:associate )?degree|diploma|dissertation|thesis)\b)",
        "",
        "clause",
    ),
    _many(FACT, "studies", r"I ~graduated (?:from|in|with) ", "", "clause"),
    _one(FACT, "name", r"my (?:full |first |last |real |given )?name is ", "is called {v}", check=is_person),
    _one(
        FACT,
        "name",
        r"(?:(?:hi|hello|hey)(?: there| all| everyone)?[,!.]? |this is me,? )I'm (?=(?-i:[A-Z]))",
        "is called {v}",
        check=is_person,
    ),
    _one(
        FACT,
        "name",
        r"I'm (?P<v>(?-i:[A-Z][\w'-]{1,20}(?: [A-Z][\w'-]{1,20}){0,2}))(?=[,.!]|$)",
        "is called {v}",
        check=is_person,
    ),
    _one(
        PREFERENCE,
        "form of address",
        r"(?:please |you can |just |everyone |people ){0,2}call(?:s)? me (?!when|if|at|on|back|later|tomorrow|crazy|a |an |the )",
        "wants to be called {v}",
        check=_words(3),
    ),
    _one(
        FACT,
        "nationality",
        rf"I'm ~(?:an? )?(?P<v>(?:half[- ])?(?:{NATIONS}))(?=[,.!;]|$| (?:and|but|citizen|national|by))",
        "is {v}",
    ),
    _one(
        FACT, "age", r"I'm ~(?P<v>\d{1,3})(?: years? old| ?y/?o\b| yrs? old|(?=[,.!;)]|$| and\b))", "is {v} years old"
    ),
    _one(
        FACT,
        "age",
        r"I(?:'m| am|ve|'ve)? ~(?:turn|turned|turning) (?P<v>\d{1,3})\b(?! (?:into|percent|%))",
        "",
    ),
    _one(
        FACT,
        "birthday",
        r"(?:my birthday is (?:on |in )?|my (?:date of birth|dob|birth date)(?: is|:) |I was born on |I was born in (?=\d))",
        "born {v}",
        check=lambda v: bool(re.search(r"\d|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec", v, re.I)),
    ),
    Rule(
        FACT,
        "allergy",
        _compile(r"I'm (?:not|no longer) (?:actually |really )?allergic to "),
        "not allergic to {v}",
        ends=True,
    ),
    _many(
        FACT,
        "allergy",
        r"I'm ~(?:severely |deathly |highly |very |slightly |mildly )?(?:allergic|intolerant) to ",
        "allergic to {v}",
        "list",
    ),
    _many(
        FACT,
        "allergy",
        r"I have (?:an? )?(?:severe |bad |serious |mild )?(?P<v>[\w -]{3,30}?) (?:allerg(?:y|ies)|intolerance)",
        "has a {v} allergy",
    ),
    _many(FACT, "allergy", r"I'm ~(?P<v>(?:lactose|gluten|histamine)[- ]intolerant|c(?:o?)eliac)", "is {v}"),
    Rule(
        FACT,
        "diet",
        _compile(r"I'm (?:not|no longer) (?:an? )?(?P<v>vegan|vegetarian|pescatarian|keto|halal|kosher)"),
        "no longer {v}",
        ends=True,
    ),
    _over(
        "diet",
        r"I don't eat (?=.{1,60}any ?(?:more|longer))|I (?:no longer|stopped|quit|gave up) eat(?:ing)? ",
        "no longer eats {v}",
    ),
    _one(
        FACT,
        "diet",
        r"I'm ~(?:an? |a strict )?(?P<v>vegan|vegetarian|pescatarian|flexitarian|(?:on )?(?:a )?(?:keto|paleo|low[- ]carb|gluten[- ]free)(?: diet)?)\b",
        "is {v}",
    ),
    _one(
        FACT,
        "diet",
        r"I've? ~(?:went|gone|turned|became|become|going|go|been|switched to) (?:an? )?(?P<v>vegan|vegetarian|pescatarian|keto|gluten[- ]free)\b",
        "is {v}",
    ),
    _many(
        FACT,
        "diet",
        r"I ~(?:don't|never|can't) (?:eat|drink|consume|have (?=(?:lactose|gluten|dairy|nuts|sugar|alcohol|caffeine|pork|meat|eggs|seafood|shellfish|soy|wheat)\b)) ?",
        "does not eat or drink {v}",
        "list",
        check=_is_liked,
    ),
    _many(
        FACT,
        "diet",
        r"I ~(?:only eat|eat only|follow a|keep|stick to a) (?=(?:halal|kosher|\w+[- ]free|low|keto|strict|plant|vegan|vegetarian|mediterranean))",
        "eats {v}",
    ),
    _many(
        FACT,
        "health",
        r"I(?:'ve| have| suffer from| was diagnosed with|'ve been diagnosed with| have been diagnosed with|'m recovering from) (?:been )?(?:(?:mild|severe|chronic|type [12]|an?) ){0,2}(?P<v>diabetes|asthma|adhd|autism|migraines?|anxiety|depression|hypertension|high blood pressure|arthritis|epilepsy|insomnia|eczema|dyslexia|celiac disease|back pain|cancer|ibs|pcos|anemia)",
        "has {v}",
    ),
    _many(FACT, "health", r"(?:I was|I've been|I got) (?:recently |just )?diagnosed with ", "diagnosed with {v}"),
    _many(
        FACT,
        "health",
        r"I'm ~(?P<v>diabetic|asthmatic|colou?r[- ]?blind|pregnant|deaf|blind|dyslexic|autistic|left-handed)\b",
        "is {v}",
    ),
    _over("employer", r"I've? ~(?:lost|quit|left) my job (?:at|with) ", "no longer works at {v}"),
    _over("owns", r"I've? ~(?:sold|gave away|got rid of) my ", "no longer has {v}"),
    _many(
        FACT,
        "owns",
        rf"(?:I|we)(?:'ve got| have got| ~have) (?=(?:an?|two|three|four|five|six|\d+|twin) (?:[\w-]+ ){{0,3}}?(?:{POSSESSIONS})\b)",
        "has {v}",
        "list",
    ),
    _many(
        FACT,
        "owns",
        r"I ~(?:own|drive|ride) (?=an?|my|two|the)",
        "has {v}",
        check=lambda v: v.split()[-1].lower() not in _TRIVIAL,
    ),
    _many(
        FACT,
        "owns",
        r"(?:I|we)(?:'ve)? ~(?P<how>bought|purchased|adopted) (?=an?\b|my\b|two\b|some\b|the\b|our\b|another\b|new\b)",
        "{how} {v}",
        "clause",
        check=_is_goal,
    ),
    _many(
        FACT,
        "event",
        r"(?:I|we) (?=(?:attended|visited|completed|finished|started|joined|won|received|participated in|signed up for|graduated|volunteered|ran|hosted|published|launched|hired|travell?ed to|flew to|went (?:to|on)|adopted|got (?!married|divorced|engaged|diagnosed|promoted|a (?:new )?job|the idea)) ?)(?!started (?:a new job|working))",
        "",
        "clause",
        check=_is_event,
    ),
    _many(
        FACT,
        "event",
        r"(?:I|we)(?:'ve)? (?:recently|just|finally) (?=(?:got|started|finished|completed|attended|visited|won|received|signed up|ran|passed|published|launched|graduated|retired|returned|came back|began|hired|signed|released|switched|upgraded|met|built|set up) )(?!got (?:home|up|here|off|done|out|my hands|it|this|that|the chance|started|a (?:question|call))\b|started (?:to feel|feeling)|finished (?:work|eating|dinner|lunch|it|this|that)\b|met up)",
        "",
        "clause",
        check=_is_goal,
    ),
    _one(
        FACT,
        "relationship",
        r"I'm ~(?P<v>single|married|engaged|divorced|widowed|separated|in a (?:long-distance )?relationship|dating \w+)\b(?! (?:parent|mom|dad|mother|to (?:the idea|my work)|out|thing))",
        "is {v}",
    ),
    _one(
        FACT,
        "relationship",
        r"(?:I|we)(?:'ve|'re| are)? ~(?:got|getting|gotten|been) (?P<v>married|engaged|divorced)\b",
        "{v}",
    ),
    _one(FACT, "relationship", r"I ~(?P<v>broke up)(?: with)?\b", "broke up"),
    _many(
        FACT,
        "language",
        r"(?:I|we) ~speak (?!to\b|with\b|for\b|up\b|about\b|at\b|my\b|from\b)(?:both )?(?:fluent |some |a little |a bit of )?",
        "speaks {v}",
        "clause",
        check=is_proper,
    ),
    _many(FACT, "language", r"I'm (?:also )?(?:fluent|bilingual) in ", "speaks {v}", "clause"),
    _many(FACT, "language", r"my (?:native|first|mother|second|home) (?:language|tongue) is ", "speaks {v}"),
    _many(
        FACT,
        "learning",
        r"I(?:'m| am|m|'ve been| have been|'ve started| started) ~(?:learning|taking (?:lessons|classes|a course) in|teaching myself) (?!that\b|how much\b|about\b|more\b|so\b|a lot\b|from\b)",
        "learning {v}",
    ),
    _many(
        FACT, "children", r"(?:I|we) (?:don't have any|have no) (?=kids|children|siblings|brothers|sisters|pets)", ""
    ),
    _many(
        FACT,
        "children",
        r"I'm ~(?=(?:an? )?(?:(?:single|proud|working|stay-at-home|new) )?(?:mom|mum|dad|mother|father|parent|grandmother|grandfather) (?:of|to)\b)",
        "is {v}",
    ),
    _many(
        FACT,
        "health",
        r"I(?:'ve)? ~(?:wear|use|been wearing|been using|need) (?=(?:an? |my )?(?:glasses|contact lenses|contacts|hearing aids?|wheelchair|braces|insulin|inhaler|pacemaker|cane|prosthe\w+)\b)",
        "",
        "clause",
    ),
    _many(
        FACT,
        "health",
        r"I ~(?:take|am taking|'m taking) (?=(?:an? )?(?:insulin|medication|antibiotics|blood pressure|antidepressants|metformin|statins|pills)\b)",
        "",
        "clause",
    ),
    _one(FACT, "job", r"I ~(?=teach (?!you|him|her|them|me)\w+)", "", "clause"),
    _one(
        FACT,
        "job",
        r"I(?:'m| am|'ve been| have been) ~the (?=(?:head|director|chief|vice president|vp|president|chair|deputy|secretary|manager|owner|founder|lead|leader|ceo|cto|cfo)\b)",
        "",
        "name",
    ),
    _many(
        FACT,
        "habit",
        r"I(?:'ve| have) been (?!feeling|thinking|wondering|waiting|trying|meaning|looking|having|doing (?:well|good|great|fine|ok)|getting|being|living|working|experiencing|keeping|wanting|finding|enjoying|loving)(?=\w+ing .{2,60}\b(?:for (?:\w+ ){1,3}(?:years?|months?|weeks?|decades?)|since)\b)",
        "",
        "clause",
    ),
    _many(
        FACT, "hobby", r"my (?:main |biggest |favou?rite )?(?:hobby|hobbies|passion|pastime) is ", "hobby: {v}", "list"
    ),
    _many(
        FACT,
        "hobby",
        r"(?:I'm (?:really |very |super |big )?(?:into|passionate about)) ",
        "into {v}",
        "list",
        check=_is_liked,
    ),
    _many(
        FACT,
        "hobby",
        r"I ~(?:play|practi[cs]e) (?:the )?(?=\w+(?:[,.]|$| (?:and|in|for|every|on|with)\b))",
        "plays {v}",
        "list",
        check=_is_liked,
    ),
    _many(
        FACT,
        "habit",
        r"I ~(?=(?:work out|exercise|run|jog|swim|cycle|bike|commute|meditate|wake up|get up|go to (?:bed|the gym|yoga|church)|volunteer|smoke|drink|walk|attend|practice|train) .{0,60}(?:every|each|daily|weekly|per (?:day|week)|a (?:day|week)|(?:once|twice|times) a|on (?:mon|tues|wednes|thurs|fri|satur|sun)days|at \d|in the mornings?))",
        "",
        "clause",
    ),
    # Preferences
    _one(
        PREFERENCE,
        "theme",
        r"(?:I(?:'d|'ve| would|'m)? ~(?:prefer|like|love|use|want|switched (?:back )?to|going (?:back )?to|went back to|using|rather use|went with)|(?:please )?(?:use|set|switch(?: me)?(?: back)? to|keep|enable|turn on)) (?:using |the |to use |it (?:in|to) |everything in |my \w+ in )?(?P<v>dark|light|high[- ]contrast)[- ]?(?:mode|theme|colou?rs?)",
        "prefers {v} mode",
    ),
    _many(
        PREFERENCE,
        "prefers",
        r"(?:I'd|I|we) ~prefer (?:if )?(?!not to say)",
        "prefers {v}",
        "clause",
        check=lambda v: v.split()[0].lower() not in ("it", "that", "this"),
    ),
    _many(PREFERENCE, "prefers", r"I'd (?:much )?rather ", "would rather {v}", "clause"),
    _over(
        "likes",
        r"I (?:no longer (?:like|love|enjoy)|don't (?:like|love|enjoy) (?=.{1,60}any ?(?:more|longer))) ?",
        "no longer likes {v}",
        PREFERENCE,
    ),
    _many(
        PREFERENCE,
        "dislikes",
        r"I ~(?:don't (?:really |particularly )?(?:like|enjoy|care for|want)|dislike|hate|can't stand|detest|despise|avoid|am not (?:a )?(?:big |huge )?fan of|'m not (?:a )?(?:big |huge )?(?:fan of|into|keen on|fond of)) (?!that|how|when|to (?:bother|interrupt|brag|say|be|sound))",
        "dislikes {v}",
        "list",
        check=_is_liked,
    ),
    _many(
        PREFERENCE,
        "likes",
        r"I ~(?:like|love|adore|enjoy) (?!that|how|when|to think|to know|to see|to hear)",
        "likes {v}",
        "list",
        check=_is_liked,
    ),
    _many(
        PREFERENCE,
        "likes",
        r"I ~(?:like|love|take|prefer|drink|want) (?=my (?:coffee|tea|eggs|steak|food|meetings?|code|answers?|emails?|reports?|drinks?|pizza|burgers?|toast)\b)",
        "",
        "clause",
    ),
    _many(
        PREFERENCE,
        "likes",
        r"I'm ~(?:an? )?(?:big |huge |massive |real )?(?:fan of|fond of|keen on|crazy about|obsessed with|(?:coffee|tea) (?=lover|person))",
        "likes {v}",
        "list",
        check=_is_liked,
    ),
    _one(
        PREFERENCE,
        "favourite {x}",
        r"my (?:all[- ]time |absolute |new |current )?favou?rite (?P<x>[\w -]{2,30}?) is ",
        "favourite {x}: {v}",
    ),
    _one(
        PREFERENCE,
        "favourite {x}",
        r"(?P<v>[\w' -]{2,40}) (?:is|has always been) my (?:all[- ]time |absolute |new |current )?favou?rite (?P<x>[\w -]{2,30}?)(?=[,.!]|$| (?:of|because|since|and|but|so)\b)",
        "favourite {x}: {v}",
    ),
)
_TRIVIAL: Final = frozenset(
    "question questions idea ideas problem problems risk errand errands life thing things lot mind errands it".split()
)

# Of relatives, friends and pets: told by the speaker, kept apart from what is the speaker's own.
_OTHERS: Final = (
    _one(
        FACT,
        "{rel} {who}: home",
        r"my RELNAME ~(?:lives?|resides?|is (?:living|based)|(?:has )?moved) (?:in|to|near) ",
        "",
        check=is_place,
    ),
    _one(
        FACT,
        "{rel} {who}: employer",
        r"my RELNAME ~(?:works?|is working|has worked) (?:as an? [\w -]{2,40}? )?(?:at|for) ",
        "",
        check=is_proper,
    ),
    _one(FACT, "{rel} {who}: job", r"my RELNAME (?:(?:works? as|became|is) )(?:an? |the )", "", check=is_job),
    _one(
        FACT,
        "{rel} {who}: age",
        r"my RELNAME (?:is|are|(?:just )?turned|will be|turns) (?P<v>\d{1,3})\b(?: years? old)?",
    ),
    _one(FACT, "{rel} {who}: birthday", r"my REL(?:,? (?P<who>(?-i:[A-Z])[\w-]{1,20}))?'s birthday is (?:on |in )?"),
    _many(FACT, "{rel} {who}: allergy", r"my RELNAME ~(?:is|are) (?:also |severely )?allergic to ", "", "list"),
    _one(
        FACT,
        "{rel}: name",
        r"my REL(?:'s name)?(?:'s| is| are) (?:called |named )?(?=(?-i:[A-Z]))",
        "",
        check=is_person,
    ),
    _one(
        FACT,
        "{rel}: name",
        r"(?P<v>(?-i:[A-Z][\w'-]{1,20})) is my REL(?=[,.!]|$| and\b)",
        "{rel}: {v}",
        check=is_person,
    ),
    _many(
        FACT,
        "{rel}: name",
        r"(?:this is |meet )?my REL,? (?P<v>(?-i:[A-Z][\w'-]{1,20}))(?=,? (?:is|was|has|will|loves?|likes?|just|who|works?|lives?|got|wants?|needs?)\b|[,.]|$)",
        "{rel}: {v}",
        check=is_person,
    ),
    _many(
        FACT,
        "{rel} {who}: about",
        r"my RELNAME ~(?=(?:had (?!a (?:tough|hard|great|good|bad|rough|blast))|is (?:moving|getting|starting|having|studying|working|living|expecting|visiting|coming|turning|learning)|bought|won|loves?|likes?|hates?|prefers?|enjoys?|speaks?|studies|plays?|owns?|collects?|teaches|started|starts|moved|goes to|attends|has (?!been (?:so|really|very))|turned|turns|works|finished|retired|runs|lives|can't|doesn't (?:eat|drink|like|speak)|got (?:married|engaged|divorced|promoted|accepted)|graduated|passed away|died|was born|is (?:vegan|vegetarian|pregnant|retired|married|getting married|diabetic|an? ))\b)",
        "",
        "clause",
    ),
    _many(
        FACT,
        "{pet} name",
        r"I ~have an? (?:[\w-]+ ){0,3}?(?P<pet>dog|cat|puppy|kitten|parrot|rabbit|horse|hamster|daughter|son|brother|sister)\b[\w ]{0,20}?(?: named| called| whose name is|, ) ?(?=(?-i:[A-Z]))",
        "{pet}: {v}",
        check=is_person,
    ),
)

# Of the speaker's things, plans and projects.
_MATTERS: Final = (
    _one(
        FACT,
        "phone",
        r"(?:my (?:phone|mobile|cell|whatsapp|telephone|work|new|contact)? ?(?:phone )?number(?: is|:) |(?:you can )?(?:call|reach|text) me (?:at|on) (?=\+?[\d(]))(?P<v>\+?[\d][\d ()./-]{5,20}\d)",
        "phone {v}",
    ),
    _one(
        FACT,
        "email",
        r"(?:my (?:work |new |personal |private )?e-?mail(?: address)?(?: is|:)|(?:you can )?(?:reach|e-?mail|contact|write to) me (?:at|on|via)|send (?:it|them|everything) to) (?P<v>[\w.+-]{1,64}@[\w-]{1,60}\.[\w.]{2,40}\w)",
        "e-mail {v}",
    ),
    _one(
        FACT,
        "phone",
        r"(?:I(?:'ve| have)? (?:just )?(?:got|have) a new (?:phone |mobile |cell )?number[,:;]? (?:it's|its|it is)?|(?:it's|here's) my (?:new )?number:?) ?(?P<v>\+?[\d][\d ()./-]{5,20}\d)",
        "phone {v}",
    ),
    _one(
        FACT,
        "email",
        r"I(?:'ve| have)? (?:just )?(?:got|have|changed to) a new e-?mail(?: address)?[,:;]? (?:it's |its |it is )?(?P<v>[\w.+-]{1,64}@[\w-]{1,60}\.[\w.]{2,40}\w)",
        "e-mail {v}",
    ),
    _many(
        FACT,
        "children",
        r"(?=an? (?:(?:single|proud|new) )?(?:mom|mum|dad|mother|father|parent|grandmother|grandfather) (?:of|to)\b)",
        "is {v}",
    ),
    _many(
        FACT,
        "team",
        r"(?:we're|we are) (?=(?:an? )?(?:(?:small|large|big|young|remote|distributed) )?(?:team|family|group|company|startup|start-up|agency|non-?profit|department|school|couple)\b)",
        "",
        "clause",
    ),
    _one(
        FACT,
        "budget",
        r"(?:MY (?:total |overall |maximum |max |project |monthly |weekly )?budget(?: for [\w' -]{1,40}?)?(?: is|:| has been| was)(?: now| (?:raised|increased|cut|reduced|changed|lowered) to| around| about| set at| up to| roughly){0,2}|(?:we|I) (?:now )?have (?:a )?(?:total )?budget of|(?:we|I) can spend (?:up to|at most|around)|budget:) ",
        "budget {v}",
        check=_is_sum,
    ),
    _one(
        FACT,
        "deadline",
        r"(?:MY (?:new |final |submission |project )?deadline(?: for [\w' -]{1,40}?)?(?: is|:| has been| was| got| moved)(?: now| (?:moved|pushed|extended|changed|postponed)(?: back)?(?: to)?| to| on){0,2}|(?:final |new )?deadline:|the (?:last|final|closing) (?:day|date) (?:for|to|of) [\w' -]{2,40}? is|(?:it|this|the [\w -]{2,30}) (?:is|must be|has to be|needs to be) (?:due|done|finished|ready|submitted|delivered) (?:on|by|before)?|(?:we|I) (?:need|have) (?:to (?:submit|deliver|finish|send|have) [\w' -]{1,40}?|it|this) by) ",
        "deadline {v}",
    ),
    _one(
        FACT,
        "{x}",
        rf"MY (?P<x>(?:[\w'-]+ ){{0,2}}(?:{EVENTS})(?: (?:in|with|for|about) [\w' ]{{2,30}}?)?)(?: is|'s| will be| has been| was| got)(?: now)?(?: (?:scheduled|set|planned|booked|moved|rescheduled|postponed|pushed|brought forward|confirmed)(?: back)?)? ?(?:for|on|at|to|until|in|from)? (?=(?:(?:early|late|mid|next|this|the) ?-?)?(?:\d|mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|tomorrow|week|month|year|noon))",
        "",
        "clause",
    ),
    _one(
        FACT,
        "{x}",
        rf"my (?P<x>(?:(?!favou?rite)[\w-]+ )?(?:{TRAITS})) is (?:called |named )?(?!going|doing|getting|being|not|so |very |really |too |driving|making|giving|killing|acting)",
        "{x}: {v}",
        check=_is_trait,
    ),
    _one(
        FACT,
        "{x}",
        rf"(?:our|the) (?P<x>(?:[\w-]+ ){{0,2}}(?:{THINGS})(?: of (?:the|our) [\w ]{{2,20}}?)?) is (?:called |named )?(?!going|doing|getting|being|not |so |very |really |too )",
        "{x}: {v}",
        "clause",
        check=lambda v: v.split()[0].lower() not in FEELINGS and (any(c.isdigit() for c in v) or is_proper(v)),
    ),
    # Marked as important by the speaker
    _many(
        FACT,
        "important",
        r"(?:one of )?(?:the|our|my|an?|another) ?(?:most )?(?:key|main|important|critical|crucial|central|primary|core|major|biggest|essential) (?:findings?|points?|facts?|results?|insights?|takeaways?|conclusions?|constraints?|requirements?|things?(?: to (?:know|remember|note))?|assumptions?|risks?)(?: (?:so far|here|of [\w' -]{1,40}?))?(?: is|:)(?: that| this:)? ",
        "",
        "clause",
    ),
    _many(
        FACT,
        "important",
        r"(?:(?:please )?(?:note|keep in mind|bear in mind|take note|be aware)(?: that|:)|(?:please )?(?:remember|don't forget)(?: that|:) (?!you\b|it\b|even\b|we\b|life\b|not\b)|(?:very )?important(?: note| fact| info)?[:!]|key (?:fact|point|finding|result|takeaway)s?:|(?:for the record|fyi|just so you know|for your information|nb|n\.b\.|note to self)[,:]|(?:useful|critical|key) fact:) ?(?!to\b|how\b|when\b)",
        "{v}",
        "clause",
        check=_words(40, at_least=3),
    ),
    # Open questions
    _many(
        FACT,
        "finding",
        r"(?:the|our|a|this|my|his|her|their|one|another) (?:[\w-]+ ){0,2}(?:survey|study|report|analysis|data|audit|results?|experiment|tests?|review|research|paper|evidence|numbers|figures|poll|trial|measurements?) (?:clearly |also )?(?:shows?|showed|found|finds|suggests?|indicates?|indicated|revealed|reveals|confirms?|confirmed|proves?|proved|concluded|reported)(?: that)? ",
        "",
        "clause",
        check=_words(40, at_least=3),
    ),
    _many(
        FACT,
        "{x}",
        r"^(?P<x>(?:the |our )?(?:[\w'-]+ ){0,3}?[\w'-]+) (?=(?:grew|fell|rose|increased|decreased|dropped|reached|amounted|stands?|stood|doubled|went (?:up|down)|totall?ed) (?:\w+ ){0,3}?[\d$€£])",
        "",
        "clause",
        check=_is_dated,
    ),
    _many(
        FACT,
        "tool",
        r"(?:we|I|our team) ~use (?=(?-i:[A-Z])[\w.+#-]*(?: (?-i:[A-Z])[\w.+#-]*)*(?: and [A-Z]\w+)? (?:for|as|to|in|on)\b)",
        "",
        "clause",
    ),
    _many(
        QUESTION,
        "open",
        r"(?:we|I)(?:'re|'m| are| am)? ~(?:need|lack) (?<=still .{4} )(?!to (?:talk|go|see|do|be)\b)",
        "",
        "clause",
    ),
    _many(
        QUESTION,
        "open",
        r"(?:(?:we|I)(?:'re|'m| are| am) (?:still |currently |just )?(?:waiting (?:for|on|to hear)|awaiting|missing) |still (?:waiting (?:for|on)|missing|need|open|pending|unclear|to be (?:decided|confirmed|determined))[: ]|waiting (?:for|on) )(?!you\b|me\b)",
        "",
        "clause",
    ),
    _many(
        QUESTION,
        "open",
        r"(?:we|I) (?:still )?(?:don't (?:yet |actually )?know (?:yet )?|do not know (?:yet )?|haven't (?:yet )?(?:decided|figured out|settled|agreed|received|heard (?:back )?(?=from)|got (?!the chance|time|around)|chosen|confirmed|found out)|have not (?:yet )?(?:decided|received|agreed|confirmed|heard (?:back )?)|have (?:yet )?to (?:find out|figure out|clarify|determine)|(?:still )?need to (?:find out|clarify|figure out|determine|confirm|decide)) ?(?=.{3})(?!what to (?:say|do)|how to thank|why I|if I can)(?=(?:who|what|when|where|which|whether|how|if|why|on|the|about|from|between|yet|any|an?)\b)",
        "",
        "clause",
    ),
    _many(
        QUESTION,
        "open",
        r"(?:I'm|we're) (?:still )?(?:not (?:yet )?sure|unsure|undecided|not certain|unclear) (?:yet )?(?!(?:who|where|which \w+|when|whether) to\b|which to\b)(?=(?:who|when|where|which|whether)\b|(?<=yet )what\b)",
        "",
        "clause",
    ),
    _many(
        QUESTION,
        "open",
        r"(?:we|I) (?:still (?:don't|do not) have|(?:don't|do not) have) (?=.{3,80})(?=[^,]{3,80}\byet\b)",
        "",
        "clause",
    ),
    _many(
        QUESTION,
        "open",
        r"(?:we|I) still (?:don't|haven't) (?:have|got|received|seen|heard|chosen|picked|found|signed) ",
        "",
        "clause",
    ),
    _many(
        QUESTION,
        "open",
        r"(?:nobody|no one|none of us) (?:yet )?(?:knows|has decided|has confirmed) (?:yet )?(?=(?:who|what|when|where|which|whether|how|if|the|yet)\b)",
        "",
        "clause",
    ),
    _many(
        QUESTION,
        "open",
        r"(?:we|I) don't have (?=(?:the|any|an?|their|our) (?:[\w-]+ ){0,4}?(?:password|figures?|data|numbers?|address|contract|quote|invoice|answer|date|details|list|file|approval|signature|confirmation|access|results?|info|information|documents?|estimate|permit|visa)\b)",
        "",
        "clause",
    ),
    _many(QUESTION, "open", r"(?:it (?:still )?remains (?:to be seen|unclear|open|unknown)|(?:I|we) (?:still )?have no idea(?: yet)?) (?=(?:who|what|when|where|which|whether|how|if)\b)(?!what to|how to)", "", "clause"),
    _many(QUESTION, "open", r"^(?:still )?(?:need|awaiting|pending) (?=the|approval|confirmation|final|an? (?:quote|answer|reply|decision|signature)|feedback from|\w+ from)", "", "clause"),
    _many(
        QUESTION,
        "open",
        r"(?:open|outstanding|unresolved|remaining|pending) (?:questions?|points?|issues?|items?)(?: is)?:? ",
        "{v}",
        "clause",
    ),
    _many(
        QUESTION,
        "open",
        r"(?:missing(?: data:?| info(?:rmation)?:?|:)|to be (?:decided|confirmed|determined|clarified)|tbd|tbc|to ?do):? ",
        "",
        "clause",
    ),
    _many(
        QUESTION,
        "open",
        r"(?:it(?:'s| is)|that(?:'s| is)) (?:still )?(?:open|unclear|undecided|unknown|not (?:yet )?(?:clear|known|decided)) (?=(?:who|what|when|where|which|whether|how|if)\b)",
        "",
        "clause",
    ),
)
_DANGLING: Final = re.compile(
    r"(?P<v>(?!it\b|this\b|that\b|there\b|I\b|he\b|she\b|they\b|we\b|my door|what's)[\w' /-]{3,60}?)(?:'s| is| are|:| remains?)(?: still| all)? (?:tbd|tbc|to be (?:decided|confirmed|determined|announced)|not (?:yet )?(?:decided|known|confirmed|final)(?: yet)?|undecided|unclear|not clear|unresolved|unsettled|open|an open question|pending|unknown(?: yet)?|missing|up in the air)(?=[,.!]|$)",
    re.IGNORECASE,
)

# Decisions; the speaker's plans; what the assistant is told to do.
_CHOICES: Final = (
    _many(
        DECISION,
        "",
        r"(?:we|I|my \w+ and I|the (?:\w+ )?(?:team|board|committee|client|council|ministry|management|company|government|cabinet|department|director|minister|boss|manager|parliament|jury))(?:'ve| have| has)? (?:all |both |finally |already |now |just |jointly |unanimously ){0,2}(?:decided|agreed|opted|settled|concluded|resolved|voted)(?: that| on| to| for| upon| against)? (?!on,? |with (?:you|him|her|that|this)\b|yet\b|more\b|it would be)",
        "",
        "clause",
    ),
    _many(
        DECISION,
        "",
        r"(?:we|I|my \w+ and I|the (?:\w+ )?(?:team|board|committee|client|council|ministry|management|company|government|cabinet|department|director|minister|boss|manager|parliament|jury))(?:'ve| have| has)? (?:finally |already |now |just )?(?:chose|chosen|picked|selected|approved|signed off on|ruled out|rejected|declined|scrapped|cancell?ed|postponed|turned down) (?!(?:them|it|him|her|you|to|this|that|up|these|those|because)\b)",
        "",
        "clause",
    ),
    _many(
        DECISION,
        "",
        r"(?:we|I)(?:'ll| will|'re| are|'m| am)? (?:going to |definitely )?(?:gonna )?(?:go|going|stick|sticking|proceed|proceeding|stay|staying) (?:with|(?<=stick )to|(?<=sticking )to) (?!(?:this|that|my|him|her|them|you|me|the flow)\b)",
        "",
        "clause",
    ),
    _many(
        DECISION,
        "",
        r"let's (?:(?:just|all|actually|instead|now|rather) )?(?:(?:go|stick|proceed|start|move forward|stay|continue|work) with|use|adopt|switch (?:back )?to|move to|choose|pick|keep|drop|call it|name it|schedule|postpone|skip|target|make it (?=\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day|the |noon)|set|host|launch|deploy|go for|build|ship|write it in) (?!in (?:mind|touch)|\w+ing\b|our (?:fingers|eyes)|it (?:up|going|real)|each other|going\b|up\b|the (?:good|fun|conversation|chat)\b|it\b$|that\b$|a (?:date|time)\b)",
        "",
        "clause",
    ),
    _many(
        DECISION,
        "",
        r"(?:the |our |my )?(?:final )?(?:decision|agreement|verdict|choice)(?: is|:| was)(?: that| to)? ",
        "",
        "clause",
    ),
    _many(
        DECISION,
        "",
        r"(?:it(?:'s| is| was|'s been| has been) (?:now )?(?:decided|settled|agreed)(?: that|:| to)?|decided:|agreed:|approved:|final answer:|as (?:agreed|decided),) ",
        "",
        "clause",
    ),
    _many(
        DECISION,
        "",
        r"we(?:'ll| will| shall|'re (?:going to|gonna)| are (?:going to|gonna)|'re| are) (?:now |be ){0,2}(?:use|using|adopt|adopting|host|hosting|launch|launching|deploy|deploying|migrate|migrating|switch|switching|drop|dropping|ship|shipping|build|building|charge|hire|hold|outsource|cancel|postpone|store|standardi[sz]e) ",
        "",
        "clause",
    ),
    _many(
        DECISION,
        "",
        r"we(?:'re| are)? (?:no longer|won't|will not|not going to|aren't) (?:using |use |be using |going with |go with |support |supporting |build |building )",
        "",
        "clause",
    ),
    _many(DECISION, "", r"(?:I|we)(?:'ll| will) (?=\w+ [^,]{2,60}\binstead\b)(?!try|see|be\b|have to)", "", "clause"),
    _many(
        DECISION,
        "",
        r"I(?:'ll| will|'m going to| am going to) (?:take|pick|choose|book|use|buy|order) (?=option|plan|the [\w -]{2,30} (?:one|plan|option|version|package)|number \d)",
        "",
        "clause",
    ),
    _many(
        DECISION,
        "",
        r"^(?!here|there|this|that|what|how|as|yes|no\b|so|oh)(?!I\b)(?P<v>(?-i:[A-Z0-9])[\w'+#.-]{1,30}(?: [\w'+#.-]{1,30}){0,2}) it is(?=[,.!]|$)",
        "{v} it is",
    ),
    _many(
        INTENT,
        "goal",
        r"the (?:aim|goal|objective|purpose|mission) of (?:my|our|the|this) [\w -]{2,40}? is to ",
        "",
        "clause",
    ),
    _many(
        INTENT,
        "goal",
        r"(?:my|our) (?:main |ultimate |long-term |short-term |current |next |biggest |primary )?(?:goal|aim|plan|objective|dream|intention|ambition|target|new year's resolution|mission)(?: for [\w' -]{1,40}?)?(?: is|:)(?: to)? (?!the same|working|going)",
        "goal: {v}",
        "clause",
    ),
    _many(
        INTENT,
        "goal",
        rf"(?:I|we)(?:'m|'re| am| are)? ~(?:planning|plan|intend|intending|aiming|aim|hoping|hope|trying|looking|preparing|training|saving up|saving|determined|want|need|have|wish|wanting|working|going) (?:to|on|for) {_UNWANTED}(?=\w+ \w)",
        "",
        "clause",
        check=_is_goal,
    ),
    _many(
        INTENT,
        "goal",
        rf"(?:I'd|we'd|I would|we would) (?:like|love) to {_UNWANTED}(?=\w+ \w)",
        "",
        "clause",
        check=_is_goal,
    ),
    _many(INTENT, "goal", r"(?:our (?:[\w-]+ ){0,2}?[\w-]+|the (?:\w+ )?(?:team|board|committee|client|council|ministry|management|company|government|cabinet|department|director|minister|boss|manager|parliament|jury)) (?:aims?|plans?|intends?|wants?|hopes?|is planning|is aiming|is hoping|is going) to ", "", "clause", check=_is_goal),
    _many(INTENT, "goal", r"(?:I|we) ~(?:dream|am dreaming|'m dreaming) (?:of|about) (?=\w+ing)", "", "clause", check=_is_goal),
    _many(
        INTENT,
        "goal",
        r"(?:I'm|we're) ~(?:planning|(?:thinking (?:of|about)|considering) (?=\w+ing\b|an?\b)|looking into|organi[sz]ing|preparing|working on|building|developing|writing|designing|creating|moving to|launching|applying (?:for|to)|getting ready for) ?(?!it\b|that\b|this\b|you\b|them\b|about you)(?=\w+ ?\w)",
        "",
        "clause",
        check=_is_goal,
    ),
)
_WISH = r"(?:(?:please|kindly|always|from now on,?|in (?:the )?future,?|going forward,?|can you please|make sure (?:to|you)|I(?:'d| would)? (?:want|like|need|prefer) you to) ){1,3}"
_ORDERS: Final = (
    _one(
        PREFERENCE,
        "language",
        rf"(?:{_WISH})?(?:answer|reply|respond|write|speak|talk)(?: to)?(?: me)?(?: always| only)? in (?P<v>(?-i:[A-Z])[a-z]{{3,20}})\b",
        "answers in {v}",
    ),
    _many(
        PREFERENCE,
        "answer style",
        rf"(?:{_WISH})?(?:keep|make|write|give me|format|structure) (?:it|(?:your |the |all |my )?(?:answers?|replies|reply|responses?|explanations?|emails?|messages?|summaries|output|things)) (?:in |as |to )?(?=(?:\w+ ){{0,2}}(?:short|brief|concise|simple|formal|informal|casual|detailed|bullet|plain|polite|friendly|technical|under|below|max|at most|one|two|three|short))",
        "",
        "clause",
    ),
    _many(
        PREFERENCE,
        "answer style",
        rf"^(?:{_WISH})?(?:please )?(?:use|stick to|write in) (?=(?:\w+ )?(?:British|American|UK|US|simple|plain|formal|informal|standard|proper) (?:English|spelling|Arabic|French|German|language)\b)",
        "",
        "clause",
    ),
    _many(
        PREFERENCE,
        "answer style",
        rf"(?:{_WISH})?(?:answer|reply|respond|explain|write|talk)(?: to me| things| everything| your (?:answers|replies))? (?=(?:more )?(?:briefly|concisely|shortly|formally|informally|simply|in (?:bullet|short|one|two|three|a |plain|simple|full|at most|under|detail)|with (?:bullet|examples|short|more|fewer|no)|without |like |as if ))",
        "",
        "clause",
    ),
    _many(
        PREFERENCE,
        "answer style",
        r"^(?:please )?(?:don't|never|stop|avoid|no more|no) (?=(?:us(?:e|ing)|add(?:ing)?|includ(?:e|ing)|writ(?:e|ing)|send(?:ing)?|giv(?:e|ing)|call(?:ing)?|apologi[sz](?:e|ing)|repeat(?:ing)?|emojis?|jargon|bullet|tables?|exclamation)\b)(?!send me|give up)",
        "",
        "clause",
    ),
    _many(
        PREFERENCE,
        "instruction",
        rf"^(?:please )?(?:from now on|in (?:the )?future|going forward|always|never)(?:,| please)? (?=(?:just )?{_IMPERATIVE}\b|only |just |no )(?=[a-z]+ \w)(?!a\b|the\b|I\b|my\b|been\b|have\b|had\b|mind\b|thought\b|knew\b|seen\b|heard\b|good\b|great\b|nice\b|fun\b|here\b|happy\b|love\b|wanted\b|feel\b|felt\b|try|thought|gets?\b|makes?\b|looking|a\b|so\b|amazing|such|be\b|forget)",
        "",
        "clause",
    ),
    _one(
        PREFERENCE,
        "units",
        rf"(?:{_WISH})?(?:use|give me|show) (?:the )?(?P<v>metric|imperial|celsius|fahrenheit|kilomet(?:er|re)s|miles)\b",
        "uses {v} units",
    ),
)
_PLAIN: Final = (
    _one(FACT, "{x}", r"(?:our|my) (?P<x>(?:[\w'-]+ ){0,3}?[\w'-]+) is (?=(?-i:[A-Z][\w.]))(?!I\b)", "{x}: {v}", check=is_proper),
    _many(FACT, "requirement", r"(?:the|our|my) (?:client|customer|boss|minister|director|team|manager|committee|users?|editor|professor|supervisor|landlord|sponsor|investors?) (?=(?:wants?|needs?|prefers?|requires?|expects?|insists?|hates?|likes?|asked for|demands?) )", "", "clause"),
    _many(FACT, "event", rf"(?:I|we)(?:'ve got| have got| have)(?= (?:an?|my|our|the) (?:[\w-]+ ){{0,3}}?(?:{EVENTS})\b) ", "", "clause", check=_is_scheduled),
    _many(FACT, "children", r"(?:we're|we are|I'm|I am) (?=expecting (?:an?|our|my|twins) )", "", "clause"),
    _many(PREFERENCE, "dislikes", r"I ~don't want (?!to (?:bother|be|interrupt|talk|sound|go|say|do|see|seem|hear|miss|lose|waste|hurt|impose)\b|you\b|it\b|that\b|this\b|anyone)(?=\w+ \w)", "does not want {v}", "clause"),
    _one(
        FACT,
        "{x}",
        r"(?:our|my) (?P<x>(?:[\w'-]+ ){0,3}?[\w'-]+) (?=(?:runs?|starts?|ends?|expires?|opens?|closes?|begins?|costs?|uses?|has|have|holds?|weighs?|consists?|requires?|covers?|employs?|supports?|lasts|contains?|leaves|departs|arrives|lands|falls|renews?|sits?|serves?|is (?:on|open|valid|due|worth|in|at|from)) )",
        "",
        "clause",
        check=_is_specific,
    ),
    _one(
        FACT,
        "{x}",
        r"the (?P<x>(?:[\w'-]+ ){0,3}?[\w'-]+)(?: (?:with|for|of|from|in|at|between) [\w' -]{2,40}?)? (?=(?:starts?|ends?|expires?|opens?|closes?|begins?|costs?|weighs?|lasts|renews?|takes place|(?:is|are|was|will be) (?:open|valid|due|worth|scheduled|limited to|set to|from|between|available)|runs? (?:on|from|until)) )",
        "",
        "clause",
        check=_is_dated,
    ),
)
_TOLD: Final = tuple(rule._replace(text=WHOLE) if not rule.text else rule for rule in _OTHERS)
_RULES: Final = {
    "self": (*_SELF, *_MATTERS, *_CHOICES, *_ORDERS),
    "my": (*_TOLD, *(r for r in (*_SELF, *_MATTERS, *_CHOICES))),
    "rest": (*_MATTERS, *_CHOICES, *_ORDERS, *(r for r in _SELF if r.kind == PREFERENCE), *_TOLD),
}

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
        rf"(?:and |also )?(?:if|when|whenever|every time|each time|any time) (?:I|you|we|it|there)\b[^,?!]{{3,80}}, (?:please |just |then ){{0,2}}(?P<v>{_IMPERATIVE} [^?!]{{3,160}})",
        re.I,
    ),
    re.compile(
        rf"(?:[^,?!]{{0,80}}, |[^:?!]{{0,80}}: )?(?:please |and |also |just ){{0,2}}(?P<v>{_IMPERATIVE} (?=[^?!]{{0,120}}\b(?:always|whenever|every time|each time|by default|in (?:the |all )?future|from now on|going forward|at all times)\b)[^?!]{{3,160}})",
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
    for rule in (*rules, *_PLAIN):
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


def _standing(text: str) -> Iterator[Finding]:
    """Orders that hold from now on, and what is called settled."""
    for rule in _STANDING:
        if match := rule.match(text):
            yield Finding(PREFERENCE, "instruction", match["v"].strip(" .,"), match[0].strip(" .,"))
            return
