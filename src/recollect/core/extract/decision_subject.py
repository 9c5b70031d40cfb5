"""Finds the subject of a decision ("database", "launch date"), so that a later decision on it supersedes the first."""

from __future__ import annotations

import re
from typing import Final

from recollect.core.extract.english_words import MONTH, WEEKDAY

_MAX_SEARCHED_WORDS: Final = 12
_CHOICES_BY_SUBJECT: Final = {
    "database": "postgres postgresql mysql mariadb sqlite mongodb mongo oracle redis dynamodb cassandra "
    "cockroachdb duckdb firestore supabase",
    "frontend framework": "react vue svelte angular next.js nextjs nuxt solid htmx ember",
    "backend framework": "django flask fastapi rails express nestjs spring laravel gin actix",
    "programming language": "python typescript javascript golang rust java kotlin swift ruby php elixir scala c++ c# "
    "haskell",
    "hosting": "aws azure gcp heroku vercel netlify hetzner digitalocean cloudflare fly.io render linode "
    "on-premises on-premise",
    "orchestration": "kubernetes nomad swarm ecs",
    "package manager": "npm pnpm yarn bun pip poetry uv conda",
    "source control": "github gitlab bitbucket",
    "chat tool": "slack teams discord mattermost whatsapp telegram",
    "design tool": "figma sketch adobe canva",
    "font": "arial helvetica calibri garamond georgia verdana roboto times",
    "payment": "stripe paypal adyen braintree",
    "authentication": "oauth saml jwt auth0 keycloak okta",
    "message queue": "kafka rabbitmq sqs nats",
    "project tool": "jira trello asana linear notion",
    "licence": "mit apache gpl agpl bsd",
    "citation style": "apa mla chicago harvard ieee vancouver",
}
_SUBJECTS_BY_CHOICE: Final = {
    choice: subject for subject, choices in _CHOICES_BY_SUBJECT.items() for choice in choices.split()
}
_WORD: Final = re.compile(r"(?<![\w+#.-])[\w+#.-]*[\w+#]")
# "… as our logo", "… for the website".
_PURPOSE: Final = re.compile(
    r"\b(?:as|for) (?:the|our|my|this|all) (?P<x>(?:[\w-]+ ){0,2}[\w-]+)(?: instead)?(?=[,.!]|$)", re.IGNORECASE
)
_NAMED_SUBJECT: Final = re.compile(
    r"(?P<x>database|logo|font|framework|language|theme|venue|date|time|price|title|name|colou?r|hotel|airline|format"
    r"|license|licence|vendor|supplier|provider|platform|location|destination|budget|deadline|tone"
    r"|style)(?=$|[,.!]| (?:of|for|is|will|to)\b)",
    re.IGNORECASE,
)
_EVENTS: Final = re.compile(
    r"\b(?P<x>launch|release|meeting|wedding|trip|submission|kick-?off|demo|conference|party"
    r"|interview|workshop|review|move"
    r"|deadline|go-live|call|event|exam)|(?P<y>اجتماع|اطلاق|عرس|زفاف|موتمر|حفل|رحله|تسليم|عرض"
    r"|مقابله|ورشه|افتتاح|تدشين)",
    re.IGNORECASE,
)
_DATE: Final = re.compile(
    rf"\b(?:{WEEKDAY}s?|{MONTH}|q[1-4]|next (?:week|month|year)|(?:spring|summer|autumn|winter))\b"
    r"|\b\d{1,2}(?:st|nd|rd|th)\b"
    r"|(?:يناير|فبراير|مارس|ابريل|مايو|يونيو|يوليو|اغسطس|سبتمبر|اكتوبر|نوفمبر|ديسمبر|احد|اثنين"
    r"|ثلاثاء|اربعاء|خميس|جمعه|سبت)\b",
    re.IGNORECASE,
)


def find_decision_subject(value: str) -> str:
    """Return the subject of a decision by its value; "" if it is not known."""
    for word in _WORD.findall(value.lower())[:_MAX_SEARCHED_WORDS]:
        if word in _SUBJECTS_BY_CHOICE:
            return _SUBJECTS_BY_CHOICE[word]
    if _DATE.search(value) and (event := _EVENTS.search(value)):
        return f"{event[0].lower()} date"
    purpose = _PURPOSE.search(value)
    if purpose:
        return purpose["x"].lower()
    named = _NAMED_SUBJECT.search(value)
    return named["x"].lower() if named else ""
