"""The shapes of bodies that come in and of answers that have no record of their own."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal
from zoneinfo import available_timezones

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from recollect.admin.access import Key
from recollect.core.models import AuditEntry, Conversation, Hit, Message, Similar
from recollect.core.topics import Topic, TopicHit
from recollect.server.request import NAME
from recollect.settings import FIXED, Settings

# The moments that there are, from 1900 up to 2200, with leap years. Dates without a time are taken, too.
_DATE = (
    r"(?:19|20|21)\d\d-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    r"|02-(?:0[1-9]|1\d|2[0-8]))"
    r"|(?:(?:19|21)(?:0[48]|[2468][048]|[13579][26])|20(?:[02468][048]|[13579][26]))-02-29"
)
_TIME = r"T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-](?:0\d|1[0-3]):[0-5]\d)"

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=NAME)]
Label = Annotated[str, Field(max_length=200)]
Text = Annotated[str, Field(max_length=1024 * 1024)]
Said = Annotated[str, Field(min_length=1, max_length=1024 * 1024, pattern=NAME)]
Moment = Annotated[
    str,
    Field(max_length=64, description="ISO-8601; without an offset it is local", examples=["2026-11-15T09:30:00Z"]),
    WithJsonSchema({"type": "string", "pattern": rf"^(?:{_DATE}){_TIME}$"}),
]
Zone = Annotated[str, WithJsonSchema({"type": "string", "enum": sorted(available_timezones())})]
# JSON has one kind of numbers: 3.0 is a whole one.
Whole = BeforeValidator(lambda given: int(given) if isinstance(given, float) and given.is_integer() else given)
Seq = Annotated[int, Field(ge=1, le=2**53), Whole]
Budget = Annotated[int, Field(ge=0, le=1_000_000), Whole]


def _unset(field: FieldInfo) -> tuple[Any, Any]:
    """The same field with its limits, and nothing as its default."""
    more = [*field.metadata, *([Whole] if field.annotation is int else [])]
    kind: Any = Annotated[field.annotation, *more] if more else field.annotation
    return kind | None, Field(None, description=field.description)


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _MessageIn(Body):
    id: Name | None = None
    at: Moment | None = None
    name: Label | None = None
    source: Literal["typed", "assistant", "imported", "tool"] | None = None
    tool_calls: list[dict[str, Any]] | None = Field(None, max_length=1000)
    tool_call_id: Name | None = None
    model_variant: Label | None = None
    metadata: dict[str, Any] | None = None
    importance: float | None = Field(None, ge=0, le=1)


class MessageIn(_MessageIn):
    role: Literal["user", "assistant", "system", "tool"]
    content: Text


class CallIn(_MessageIn):
    """A message that only calls tools."""

    role: Literal["assistant"]
    content: None = None
    tool_calls: list[dict[str, Any]] = Field(min_length=1, max_length=1000)


class MessagesIn(Body):
    messages: list[MessageIn | CallIn] = Field(max_length=10_000)


class Messages(BaseModel):
    messages: list[Message]
    next: int | None = Field(None, description="`before` of the next page; none: there is no more")


class Stored(BaseModel):
    messages: list[Message]


class Conversations(BaseModel):
    conversations: list[Conversation]
    next: int | None = Field(None, description="`offset` of the next page; none: there is no more")


class ConversationChange(Body):
    title: Annotated[str, Field(max_length=500)] | None = None
    tags: list[Name] | None = Field(None, max_length=100)
    zone: Zone | None = Field(None, examples=["Asia/Riyadh"])


class ContextIn(Body):
    query: Text
    system_prompt: Text | None = None
    budget: Budget | None = None
    model: Label = "gpt-4o-mini"
    at: Moment | None = Field(None, description="the moment of asking")
    before: Seq | None = None
    everywhere: bool = False


class Turn(Body):
    role: Literal["user", "assistant"]
    content: Text


class ChatIn(Body):
    content: Said
    model: Name | None = Field(None, description="`recollect` is the built-in assistant")
    system_prompt: Text | None = None
    budget: Budget | None = None
    memory: Literal["on", "read", "off"] = Field(
        "on", description="read: use memory, store nothing; off: a temporary conversation, neither used nor stored"
    )
    history: list[Turn] = Field(
        [], max_length=1000, description="what the caller keeps himself where nothing is stored"
    )


class RetryIn(Body):
    """Answer the last question once more."""

    retry: Literal[True]
    model: Name | None = None
    system_prompt: Text | None = None
    budget: Budget | None = None


class Stopped(BaseModel):
    stopped: int


class Recalled(BaseModel):
    hits: list[Hit]
    metrics: dict[str, Any]
    degraded: list[str]


class SimilarQuestions(BaseModel):
    similar: list[Similar]


class Topics(BaseModel):
    topics: list[Topic]


class TopicHits(BaseModel):
    topics: list[TopicHit]


class TopicChange(Body):
    title: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    tags: list[Name] | None = Field(None, max_length=100)
    pinned: bool | None = None
    importance: float | None = Field(None, ge=0, le=1)
    state: Literal["warm", "cold"] | None = Field(None, description="cold: let it rest now; warm: bring it back")


class MergeIn(Body):
    topic: Name


class SplitIn(Body):
    messages: list[Name] = Field(min_length=1, max_length=1000)
    title: Annotated[str, Field(max_length=500)] | None = None


class Point(BaseModel):
    at: datetime
    priority: float


class Decay(BaseModel):
    points: list[Point]


class FeedbackIn(Body):
    value: float = Field(ge=-1, le=1)
    kind: Literal["thumb", "used", "edited", "deleted"] = "thumb"


class Versions(BaseModel):
    versions: list[dict[str, Any]]


class CompressIn(Body):
    force: bool = False


class SettingsOut(BaseModel):
    settings: dict[str, Any]
    origins: dict[str, str]
    personal: list[str] = Field(description="those that each person may change")


_CHANGEABLE: dict[str, Any] = {
    name: _unset(field) for name, field in Settings.model_fields.items() if name not in FIXED
}
if TYPE_CHECKING:
    Changes = Body  # each setting that can be changed at run time is a field of it
else:
    Changes = create_model("Changes", __base__=Body, **_CHANGEABLE)


class SettingsChange(Body):
    changes: Changes = Field(description="null takes a change back")
    everybody: bool = Field(False, description="for all who have not chosen otherwise; needs the scope admin")


Field500 = Annotated[str, Field(max_length=500)]


class PreferencesIn(Body):
    coding_style: Field500 | None = None
    languages: Annotated[list[Field500], Field(max_length=50)] | None = None
    frameworks: Annotated[list[Field500], Field(max_length=50)] | None = None


class AboutIn(Body):
    goals: Field500 | None = None
    domain: Field500 | None = None
    constraints: Field500 | None = None


class ProfileIn(Body):
    preferences: PreferencesIn = PreferencesIn()
    context: AboutIn = AboutIn()
    notes: Annotated[str, Field(max_length=8192)] | None = Field(None, description="at most 8 KiB")


class Consent(Body):
    consent: bool


class Audit(BaseModel):
    entries: list[AuditEntry]
    next: int | None = Field(None, description="`before` of the next page; none: there is no more")


class KeyIn(Body):
    person: Name
    label: Annotated[str, Field(max_length=200, pattern=r"^[^\u0000]*$")] = ""
    department: Name | None = None
    ministry: Name | None = None
    clearances: list[Name] = Field([], max_length=20)
    scopes: list[Literal["read", "write", "admin"]] = Field(["read", "write"], min_length=1, max_length=3)
    days: float | None = Field(None, gt=0, le=36_500)


class Keys(BaseModel):
    keys: list[Key]


class LoginIn(Body):
    key: Annotated[str, Field(max_length=500)]


class Session(BaseModel):
    person: str | None
    scopes: list[str]
    csrf: str | None = Field(description="send it back as X-CSRF-Token with whatever changes something")
    keys: bool = Field(description="whether this server asks for keys")


class Health(BaseModel):
    status: str
    version: str


class Model(BaseModel):
    id: str
    object: str
    created: int
    owned_by: str


class Models(BaseModel):
    object: str
    data: list[Model]
