"""English words that the rules go by, and what a value may look like."""

from __future__ import annotations

import re
from typing import Final


def _any(words: str) -> str:
    return "|".join(words.split())


RELATIVES: Final = _any(
    """mother mom mum father dad parents sister brother siblings? wife husband partner girlfriend boyfriend fiancée?
    son daughter kids? child children baby grandmother grandma grandfather grandpa aunt uncle cousin niece nephew friend
    roommate flatmate boss manager colleague coworker assistant mentor doctor dentist therapist teacher neighbou?r
    landlord dog cat puppy kitten parrot rabbit horse mother-in-law father-in-law sister-in-law brother-in-law"""
)
POSSESSIONS: Final = _any(
    """dogs? cats? pets? puppy puppies kittens? parrots? rabbits? fish turtles? horses? hamsters? birds? kids? children child
    daughters? sons? brothers? sisters? siblings? twins? cousins? bikes? bicycles? cars? motorcycles? boat house apartment
    garden piano guitar violin laptop macbook iphone pc camera tesla toyota telescope degree phd master's bachelor's"""
)
TRAITS: Final = (
    r"time ?zone|(?:shoe|shirt|dress|clothing|ring) size|height|weight|blood (?:type|group)|passport number|employee (?:id|number)"
    r"|user ?name|handle|license plate|zodiac sign|star sign|major|school|university|home ?town|native country|anniversary"
    r"|car|laptop|phone|computer|bike|salary|company|startup|team|department|office|gym|bank|insurance|dog|cat|website|blog|github"
    r"|account number|iban|id number|student id|zip code|postcode|religion|nickname|pronouns|project|thesis|dissertation|wedding date"
    r"|work schedule|working hours|commute|team lead|supervisor|manager|boss|doctor|dentist|assistant|lawyer|accountant"
)
THINGS: Final = (
    r"name|title|code ?name|version|price|cost|rate|fee|total|password|server|database|repo|repository|client|customer|vendor"
    r"|supplier|address|location|venue|team|office|headquarters|limit|target|revenue|rent|salary|contract|invoice|port|host|contact"
    r"|capacity|population|sample size|word count|number|id|company|tech stack|stack|backend|frontend|framework|ceo|cto|manager|lead|project|product|app|tool|domain|website|director|minister|chair(?:man|woman|person)?|president|owner|winner|spokes\w+"
)
EVENTS: Final = (
    r"meeting|appointment|exam|interview|flight|wedding|launch|release|conference|presentation|demo|review|call|workshop|trip"
    r"|surgery|party|concert|event|kick-?off|go-?live|hearing|visit|class|course|session|match|game|race|marathon|training|webinar"
)
NATIONS: Final = _any(
    """American British English Irish Scottish Canadian Australian German French Italian Spanish Portuguese Dutch Belgian
    Swiss Austrian Polish Russian Ukrainian Turkish Greek Swedish Norwegian Danish Finnish Indian Pakistani Bangladeshi
    Chinese Japanese Korean Vietnamese Thai Filipino Indonesian Malaysian Egyptian Moroccan Algerian Tunisian Libyan
    Sudanese Lebanese Syrian Jordanian Palestinian Iraqi Iranian Saudi Emirati Kuwaiti Qatari Bahraini Omani Yemeni
    Mexican Brazilian Argentinian Colombian Chilean Peruvian Nigerian Kenyan Ethiopian African Muslim Christian Jewish
    Hindu Buddhist atheist"""
)
JOBS: Final = frozenset(
    """accountant actor analyst architect artist attorney author baker barber barista bartender biologist builder
    bookkeeper carpenter cashier ceo cfo chef chemist clerk coach coder consultant contractor cook copywriter cto
    counselor counsellor dancer dentist designer developer director doctor driver economist editor electrician engineer
    entrepreneur farmer filmmaker firefighter founder co-founder freelancer geologist grad-student hairdresser historian
    illustrator intern investor instructor interpreter janitor journalist judge lawyer lecturer librarian machinist
    manager marketer mechanic midwife model musician novelist nurse officer optician painter paralegal paramedic
    pediatrician pharmacist photographer physician physicist physiotherapist pianist pilot plumber podcaster policeman
    postdoc principal producer professor programmer psychologist psychiatrist realtor receptionist recruiter researcher
    retiree sailor salesman salesperson scientist secretary singer soldier specialist student surgeon surveyor tailor
    teacher technician therapist trader trainer translator treasurer tutor vet veterinarian volunteer waiter waitress
    welder writer youtuber blogger administrator admin lead planner strategist nutritionist dietitian caregiver nanny
    undergraduate freshman sophomore graduate pensioner homemaker butcher florist gardener goldsmith imam priest diver
    minister ambassador diplomat spokesperson superintendent supervisor""".split()
)
FEELINGS: Final = frozenset(
    """good great fine bad nice okay ok amazing awesome broken dead slow fast full empty busy tired sick hurting itchy
    sore crazy mess messy boring fun cool old new big small huge tiny better worse best worst always never just almost
    like what how why where when all here there up down on off out over away done ready late early important
    the my your his her our their it that this these an a tbd tbc unknown missing unclear undecided pending open""".split()
)
_NOT_NAMES: Final = frozenset(
    """so very really not sure sorry happy glad sad tired here back fine good great ok okay ready done just also still
    new old afraid excited thrilled curious interested looking going trying planning working thinking wondering having
    using getting in on at from with about the a an vegan vegetarian single married muslim christian jewish hindu
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december god jesus yes no also thanks i we it this that what my our""".split()
)
_TIMES: Final = re.compile(
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|january|february|march|april|june|july|august|september|october"
    r"|november|december|today|tomorrow|night|home|least|most|once|present|all|first|last)\b",
    re.IGNORECASE,
)


def is_job(value: str) -> bool:
    """Whether the words name a trade: "senior data engineer", "nurse at a clinic", not "big fan"."""
    words = re.split(r" (?:at|in|for|with|of|by|on|from|who|working|specializing) ", value.lower(), maxsplit=1)[
        0
    ].split()
    return bool(words) and len(words) <= 5 and words[-1].rstrip("s.") in JOBS


def is_proper(value: str) -> bool:
    """Begins with a capital or a digit, perhaps after an article, and is no time."""
    words = value.split()
    if words and words[0].lower() in ("a", "an", "the"):
        words = words[1:]
    return bool(words) and not words[0][:1].islower() and not _TIMES.match(words[0])


def is_place(value: str) -> bool:
    """A name, or what people who never use capitals write like one."""
    words = value.split()
    if not words or _TIMES.match(words[0]) or not any(sign.isalpha() for sign in value):
        return False
    if any(word[:1].isupper() for word in words):
        return True
    return len(words) <= 3 and words[0] not in _NOT_PLACES


_NOT_PLACES: Final = frozenset(
    """a an the my our your his her their this that these those it fear peace harmony constant hope love general front
    charge case fact order need time one two something somewhere work school home bed here there between and any some
    different""".split()
)


def is_person(value: str) -> bool:
    words = value.split()
    return 0 < len(words) <= 4 and not {word.lower() for word in words} & _NOT_NAMES and words[0][:1].isalpha()
