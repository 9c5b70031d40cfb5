"""The word lists of the English rules, and the abbreviations in their patterns."""

from __future__ import annotations

from typing import Final

from recollect.core.extract.rules import word_set
from recollect.core.times import MONTH_NAMES


def _alternatives(words: str) -> str:
    return "|".join(words.split())


WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
MONTH: Final = _alternatives(" ".join(MONTH_NAMES).lower())
RELATIVES: Final = _alternatives(
    """mother mom mum father dad parents sister brother siblings? wife husband partner girlfriend boyfriend fiancée?
    son daughter kids? child children baby grandmother grandma grandfather grandpa aunt uncle cousin niece
    nephew friend roommate flatmate boss manager colleague coworker assistant mentor doctor dentist therapist
    teacher neighbou?r landlord dog cat puppy kitten parrot rabbit horse mother-in-law father-in-law
    sister-in-law brother-in-law"""
)
POSSESSIONS: Final = _alternatives(
    """dogs? cats? pets? puppy puppies kittens? parrots? rabbits? fish turtles? horses? hamsters? birds? kids? children
    child daughters? sons? brothers? sisters? siblings? twins? cousins? bikes? bicycles? cars? motorcycles? boat
    house apartment garden piano guitar violin laptop macbook iphone pc camera tesla toyota telescope degree phd
    master's bachelor's"""
)
TRAITS: Final = (
    r"time ?zone|(?:shoe|shirt|dress|clothing|ring) size|height|weight|blood (?:type|group)"
    r"|passport number|employee (?:id|number)"
    r"|user ?name|handle|license plate|zodiac sign|star sign|major|school|university|home ?town"
    r"|native country|anniversary"
    r"|car|laptop|phone|computer|bike|salary|company|startup|team|department|office|gym|bank"
    r"|insurance|dog|cat|website|blog|github"
    r"|account number|iban|id number|student id|zip code|postcode|religion|nickname|pronouns"
    r"|project|thesis|dissertation|wedding date"
    r"|work schedule|working hours|commute|team lead|supervisor|manager|boss|doctor|dentist"
    r"|assistant|lawyer|accountant"
)
THINGS: Final = (
    r"name|title|code ?name|version|price|cost|rate|fee|total|password|server|database|repo"
    r"|repository|client|customer|vendor"
    r"|supplier|address|location|venue|team|office|headquarters|limit|target|revenue|rent|salary"
    r"|contract|invoice|port|host|contact"
    r"|capacity|population|sample size|word count|number|id|company|tech stack|stack|backend"
    r"|frontend|framework|ceo|cto|manager|lead|project|product|app|tool|domain|website|director"
    r"|minister|chair(?:man|woman|person)?|president|owner|winner|spokes\w+"
)
EVENTS: Final = (
    r"meeting|appointment|exam|interview|flight|wedding|launch|release|conference|presentation"
    r"|demo|review|call|workshop|trip"
    r"|surgery|party|concert|event|kick-?off|go-?live|hearing|visit|class|course|session|match"
    r"|game|race|marathon|training|webinar"
)
NATIONS: Final = _alternatives(
    """American British English Irish Scottish Canadian Australian German French Italian Spanish Portuguese Dutch
    Belgian Swiss Austrian Polish Russian Ukrainian Turkish Greek Swedish Norwegian Danish Finnish Indian
    Pakistani Bangladeshi Chinese Japanese Korean Vietnamese Thai Filipino Indonesian Malaysian Egyptian
    Moroccan Algerian Tunisian Libyan Sudanese Lebanese Syrian Jordanian Palestinian Iraqi Iranian Saudi Emirati
    Kuwaiti Qatari Bahraini Omani Yemeni Mexican Brazilian Argentinian Colombian Chilean Peruvian Nigerian
    Kenyan Ethiopian African Muslim Christian Jewish Hindu Buddhist atheist"""
)
JOBS: Final = word_set(
    """accountant actor analyst architect artist attorney author baker barber barista bartender biologist builder
    bookkeeper carpenter cashier ceo cfo chef chemist clerk coach coder consultant contractor cook copywriter
    cto counselor counsellor dancer dentist designer developer director doctor driver economist editor
    electrician engineer entrepreneur farmer filmmaker firefighter founder co-founder freelancer geologist
    grad-student hairdresser historian illustrator intern investor instructor interpreter janitor journalist
    judge lawyer lecturer librarian machinist manager marketer mechanic midwife model musician novelist nurse
    officer optician painter paralegal paramedic pediatrician pharmacist photographer physician physicist
    physiotherapist pianist pilot plumber podcaster policeman postdoc principal producer professor programmer
    psychologist psychiatrist realtor receptionist recruiter researcher retiree sailor salesman salesperson
    scientist secretary singer soldier specialist student surgeon surveyor tailor teacher technician therapist
    trader trainer translator treasurer tutor vet veterinarian volunteer waiter waitress welder writer youtuber
    blogger administrator admin lead planner strategist nutritionist dietitian caregiver nanny undergraduate
    freshman sophomore graduate pensioner homemaker butcher florist gardener goldsmith imam priest diver
    minister ambassador diplomat spokesperson superintendent supervisor"""
)
FEELINGS: Final = word_set(
    """good great fine bad nice okay ok amazing awesome broken dead slow fast full empty busy tired sick hurting
    itchy
    sore crazy mess messy boring fun cool old new big small huge tiny better worse best worst always never just
    almost like what how why where when all here there up down on off out over away done ready late early
    important the my your his her our their it that this these an a tbd tbc unknown missing unclear undecided
    pending open"""
)
IMPERATIVE: Final = (
    r"(?:book|send|give|show|use|skip|write|add|include|start|end|put|format|remind|keep|avoid"
    r"|address|reply|answer|explain|call|cite|convert"
    r"|(?:don't|do not|never|always) (?:use|give|send|show|write|add|include|put|call|tell|ask"
    r"|assume|start|end|mention|answer|reply|explain|make|skip|suggest|apologi[sz]e)|leave|list"
    r"|number|highlight|round|quote|translate|drop|mention|assume|ask|tell|stop|respond|make)"
)
_UNWANTED = (
    r"(?!(?:know|ask|see|hear|say|thank|talk|understand|make sure|be|go (?:to bed|now|home"
    r"|to sleep)|sleep|eat|leave|admit|tell|mention|share"
    r"|note|add|clarify|discuss|confirm|check|think|believe|remind|emphasi[sz]e|point out|get back"
    r"|have to|say|congratulate"
    r"|apologi[sz]e|chat|hear|wish|do (?:that|it|this)|it|that|this|you|chill|relax|rest|run|cry"
    r"|die|hug|use the bathroom|like)\b)"
)
_WISH = (
    r"(?:(?:please|kindly|always|from now on,?|in (?:the )?future,?|going forward,?|can you please"
    r"|make sure (?:to|you)|I(?:'d| would)? (?:want|like|need|prefer) you to) ){1,3}"
)
_HAPPENED = (
    r"attended|visited|completed|finished|started|began|joined|won|received|participated in|signed up for|enrolled in"
    r"|graduated|volunteered|ran|hosted|published|launched|released|hired|travell?ed|flew|drove|adopted|took|made|met"
    r"|went (?:to|on|for|\w+ing)|built|bought|sold|lost|found|performed|recorded|painted|planted|cooked|baked|read|saw"
    r"|tried|passed|failed|retook|retired|organi[sz]ed|celebrated|opened|closed|broke|fixed|repaired|injured|hurt|spent"
    r"|signed|presented|submitted|delivered|competed in|climbed|camped|hiked|cancell?ed|booked|donated|learn(?:ed|t)"
    r"|designed|created|wrote|composed|taught|coached|raised|interviewed|called off"
    r"|got(?! (?:home|up|here|off|done|out|it|this|that|the chance|the idea|started|to|married|divorced|engaged"
    r"|diagnosed|promoted|a (?:question|call|chance|new job|job))\b)"
)
# Events worth keeping without a date: "I just joined a choir", not "I just opened the terminal".
_LIFE_EVENT = (
    r"joined|adopted|bought|purchased|moved (?:in|out|house|into|back)|won|received|attended|visited|finished|completed"
    r"|started|began|graduated|retired|signed up|enrolled in|participated in|volunteered|hired|published|launched"
    r"|released|passed|failed|met(?! up)|built|returned|came back|set up|switched|upgraded|performed|recorded"
    r"|competed in|painted|planted|baked"
    r"|sold|donated|hosted|organi[sz]ed|celebrated|travell?ed|flew|hiked|climbed|went (?:to|on|\w+ing)"
    r"|took (?:up|part in|my|our|the (?:kids|children|dogs?)|an? (?:trip|class|course|road|solo|workshop|train|flight))"
    r"|got (?:back from|accepted|hired|fired|laid off|into|the (?:keys|flu|results)|(?:an?|my|our|two|three|another"
    r"|some)(?! (?:[\w-]+ )?(?:questions?|calls?|chance|jobs?|ideas?|e?-?mails?|messages?|texts?|reply|response"
    r"|answers?|notifications?|feeling|minutes?|moment|hands|time|coffee|results?|warnings?|points?|weird|bit|lot|few))\b)"
)
_TITLED = _alternatives(
    """book novel album song track movie film series show game podcast band restaurant caf[eé] dog cat puppy kitten
    snake parrot rabbit horse hamster turtle bird pet friend company startup project app course boat playlist"""
)
# Verbs that connect the speaker with a named thing: "I read a book called …". No denial and no wish.
_COMES_TO = (
    r"(?:(?:I|we)(?:'ve|'m|'re| have| am| are| was| were)?(?: been)? ~"
    r"(?:(?:ha(?:ve|d)|got|own(?:ed)?|adopted|bought|ordered|finished|discovered|found|met|made|wrote|built|published"
    r"|recommend|use|using|used|run|running|ran|joined|joining|start(?:ed|ing)|found(?:ed|ing)|visit(?:ed|ing)|tried"
    r"|read(?:ing)?|writing|building|developing|watch(?:ed|ing)?|saw|seen|hear|heard|lov(?:e|ed|ing)"
    r"|lik(?:e|ed)|enjoy(?:ed|ing)?|play(?:ed|ing)?|tak(?:e|en|ing)|took|teach(?:ing)?|taught|record(?:ed|ing))"
    r"|(?:listen(?:ed|ing)?|been|went) to|work(?:ed|ing)? (?:at|on|for|with)|(?:ordered|ate|eaten|eat|eating) (?:at|in)"
    r"|(?:enrolled|volunteer(?:ed|ing)?|play(?:ed|ing)?|sing(?:ing)?|sang) (?:in|at|for)|heard (?:of|about)"
    r"|(?:binge-)?watching|(?:hooked|obsessed|in love) (?:on|with)|a (?:big |huge )?fan of|(?:part|a member) of|into"
    r"|in|at) )"
)
_NOT_BETWEEN = _alternatives(  # words that may not stand between an article and the named thing
    "an? my the that our his her their your of no not who whose like about had has got have without for i we you"
)
# Activities that are done all day, or that have a slot of their own.
_PASSING = (
    r"thinking|feeling|trying|wondering|hoping|looking|meaning|wanting|getting|having|doing|going|talking|waiting|missing"
    r"|being|noticing|seeing|hearing|asking|dying|struggling|debating|considering|experiencing|reading (?:about|up)"
    r"|procrastinating|thing|nothing|something|anything|everything|living|working|dating|staying|studying|using(?! my )"
    r"|staring|debugging|pinging|banging|crying|falling|sitting|scrolling|running into|sleeping|fighting|arguing"
    r"|eating(?= meat)|(?:\w+ing) (?:(?:on|at|with|for|to|in|about|through|over|around|of|up|out) ){0,2}"
    r"(?:this|it|that|them|you|your|errors?|bugs?|the (?:code|server|errors?|same|bugs?))"
)
_BACK_THEN = (
    r"(?:yesterday|the day before yesterday|this (?:morning|week|weekend|month)|(?:a|an|one|two|three|four|five|six|\d+"
    r"|a (?:few|couple of)) (?:days?|weeks?|weekends?|months?|years?) ago"
    rf"|last (?:night|week|weekend|month|year|summer|winter|spring|fall|autumn|{WEEKDAY})|on {WEEKDAY})"
)
_ONLY_THEN = (
    r"[^.!?;]{2,60} (?:after|before|on|when|whenever|while|during|until|unless|except|without|if|at (?:night|work|lunch"
    r"|dinner|breakfast|home)|in (?:the (?:morning|evening|afternoon)|summer|winter|public|restaurants)|past \d"
    r"|outside|together|with)\b"
)
# Abbreviations in the patterns of the rules, replaced in this order.
SHORTHAND: Final = {
    "<COMES_TO>": _COMES_TO,
    "I'm": r"I(?:'m| am)",
    "I've": r"I(?:'ve| have)?",
    "I'd": r"(?:I|we)(?:'d| would)",
    "we're": r"we(?:'re| are)",
    "we've": r"we(?:'ve| have)?",
    "don't": r"(?:do not|don't)",
    "can't": r"(?:can ?not|can't)",
    "~": r"(?:(?:really|currently|now|also|just|still|actually|always|usually|mostly|mainly|personally"
    r"|definitely|finally"
    r"|recently|already|only|generally|normally|typically|strongly|much|absolutely|officially"
    r"|probably|tend to) ){0,2}",
    " is ": r"(?:'s| is| are|'re| was| will be) (?:now |actually |currently |still |also )?",
    "MY": r"(?:my|our|the)",
    "REL": rf"(?P<rel>(?:(?:older|younger|little|big|eldest|twin|late|best|ex) |ex-)?(?:{RELATIVES}))",
    "NAME": r"(?:,? (?P<who>(?-i:[A-Z][\w'-]{1,20}(?: [A-Z][\w'-]{1,20})?)),?)?",
    "<HAPPENED>": rf"(?:{_HAPPENED})\b",
    "<LIFE_EVENT>": rf"(?:{_LIFE_EVENT})\b",
    "<TITLED>": _TITLED,
    "<PASSING>": rf"(?:{_PASSING})\b",
    "<NOT_BETWEEN>": rf"(?:{_NOT_BETWEEN})\b",
    "<BACK_THEN>": _BACK_THEN,
    "<ONLY_THEN>": _ONLY_THEN,
    "<EVENTS>": EVENTS,
    "<TRAITS>": TRAITS,
    "<THINGS>": THINGS,
    "<NATIONS>": NATIONS,
    "<POSSESSIONS>": POSSESSIONS,
    "<JOBS>": "|".join(sorted(JOBS)),
    "<IMPERATIVE>": IMPERATIVE,
    "<UNWANTED>": _UNWANTED,
    "<WISH>": _WISH,
}
