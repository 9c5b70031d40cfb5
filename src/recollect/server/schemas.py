"""The JSON shapes of the REST API: bodies that come in (`…In`), and answers that are not records (`…Out`)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal
from zoneinfo import available_timezones

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    create_model,
)
from pydantic.fields import FieldInfo

from recollect.admin.access import Key
from recollect.core.message import CONTENT_LIMIT, Message
from recollect.core.models import AuditEntry, Conversation, Hit, Similar
from recollect.core.text import replace_unstorable
from recollect.core.topics import Topic, TopicHit
from recollect.server.request import VISIBLE_PATTERN
from recollect.settings import FIXED_AT_START, Settings

# Existing moments from 1900 to 2199, with leap years, for the OpenAPI. The server also takes dates without a time.
_DATE_PATTERN = (
    r"(?:19|20|21)\d\d-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    r"|02-(?:0[1-9]|1\d|2[0-8]))"
    r"|(?:(?:19|21)(?:0[48]|[2468][048]|[13579][26])|20(?:[02468][048]|[13579][26]))-02-29"
)
_TIME_PATTERN = r"T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-](?:0\d|1[0-3]):[0-5]\d)"


def _keep_half_pairs(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Check a text as if half surrogate pairs were U+FFFD, and return it as it came: the memory replaces and counts."""
    try:
        return check(value)
    except ValidationError:
        if isinstance(value, str) and replace_unstorable(value)[1]:
            check(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
            return value
        raise


AnyText = WrapValidator(_keep_half_pairs)  # for what people write; names and ids with half a pair are refused
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=VISIBLE_PATTERN)]
Label = Annotated[str, Field(max_length=200), AnyText]
ModelName = Annotated[str, Field(max_length=200)]
Text = Annotated[str, Field(max_length=CONTENT_LIMIT), AnyText]
VisibleText = Annotated[str, Field(min_length=1, max_length=CONTENT_LIMIT, pattern=VISIBLE_PATTERN), AnyText]
ProfileText = Annotated[str, Field(max_length=500), AnyText]
Title = Annotated[str, Field(max_length=500), AnyText]
Moment = Annotated[
    str,
    Field(
        max_length=64,
        description="ISO-8601; without an offset it is read in the conversation's time zone",
        examples=["2026-11-15T09:30:00Z"],
    ),
    WithJsonSchema({"type": "string", "pattern": rf"^(?:{_DATE_PATTERN}){_TIME_PATTERN}$"}),
]
Zone = Annotated[str, WithJsonSchema({"type": "string", "enum": sorted(available_timezones())})]
# JSON does not tell integers from floats: 3.0 is taken as 3.
WholeNumber = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
Seq = Annotated[int, Field(ge=1, le=2**53), WholeNumber]
Budget = Annotated[int, Field(ge=0, le=1_000_000), WholeNumber]


class RequestBody(BaseModel):
    """A body that comes in. Unknown fields and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


# Messages and conversations


class _MessageFieldsIn(RequestBody):
    id: Name | None = None
    at: Moment | None = None
    name: Label | None = None
    source: Literal["typed", "assistant", "imported", "tool"] | None = None
    tool_calls: list[dict[str, Any]] | None = Field(None, max_length=1000)
    tool_call_id: Name | None = None
    model_variant: Label | None = None
    metadata: dict[str, Any] | None = None
    importance: float | None = Field(None, ge=0, le=1)


class MessageIn(_MessageFieldsIn):
    """A message to store."""

    role: Literal["user", "assistant", "system", "tool"]
    content: Text


class CallIn(_MessageFieldsIn):
    """A message of the assistant that has no content and only calls tools."""

    role: Literal["assistant"]
    content: None = None
    tool_calls: list[dict[str, Any]] = Field(min_length=1, max_length=1000)


class MessagesIn(RequestBody):
    """Messages to store in one transaction."""

    messages: list[MessageIn | CallIn] = Field(max_length=10_000)


class MessagesOut(BaseModel):
    """A page of messages."""

    messages: list[Message]
    next: int | None = Field(None, description="`before` of the next page; null on the last page")


class StoredOut(BaseModel):
    """Stored messages, all of them."""

    messages: list[Message]


class ConversationsOut(BaseModel):
    """A page of conversations."""

    conversations: list[Conversation]
    next: int | None = Field(None, description="`offset` of the next page; null on the last page")


class ConversationChangeIn(RequestBody):
    """New values of a conversation. Fields that are not sent stay as they are."""

    title: Title | None = None
    tags: list[Name] | None = Field(None, max_length=100)
    zone: Zone | None = Field(None, examples=["Asia/Riyadh"])


class FeedbackIn(RequestBody):
    """A rating of a message."""

    value: float = Field(ge=-1, le=1)
    kind: Literal["thumb", "used", "edited", "deleted"] = "thumb"


class BriefVersionsOut(BaseModel):
    """The versions of a brief."""

    versions: list[dict[str, Any]]


class CompressIn(RequestBody):
    """Options of compressing."""

    force: bool = False


# Recall and chat


class ContextIn(RequestBody):
    """The question that a context is built for, and its options."""

    query: Text
    system_prompt: Text | None = None
    budget: Budget | None = None
    model: ModelName = "gpt-4o-mini"
    at: Moment | None = Field(None, description="the moment of asking, for dates and recency; now by default")
    before: Seq | None = None
    everywhere: bool = False


class RecallOut(BaseModel):
    """The hits of a recall, the best first, with figures."""

    hits: list[Hit]
    metrics: dict[str, Any]
    degraded: list[str]


class SimilarOut(BaseModel):
    """Earlier, similar questions."""

    similar: list[Similar]


class TurnIn(RequestBody):
    """An earlier turn that the caller keeps itself."""

    role: Literal["user", "assistant"]
    content: Text


class ChatIn(RequestBody):
    """A message to answer."""

    content: VisibleText
    model: Name | None = Field(None, description="`recollect` is the built-in assistant")
    system_prompt: Text | None = None
    budget: Budget | None = None
    memory: Literal["on", "read", "off"] = Field(
        "on", description="read: use memory, store nothing; off: neither use memory nor store anything"
    )
    history: list[TurnIn] = Field(
        [], max_length=1000, description="earlier turns that the caller keeps itself, because they are not stored"
    )


class RetryIn(RequestBody):
    """A request to answer the last question of the conversation once more."""

    retry: Literal[True]
    model: Name | None = None
    system_prompt: Text | None = None
    budget: Budget | None = None


class StoppedOut(BaseModel):
    """The number of answers that were stopped; those of other processes are not counted."""

    stopped: int


class ModelOut(BaseModel):
    """A model, in OpenAI's form."""

    id: str
    object: str
    created: int
    owned_by: str


class ModelsOut(BaseModel):
    """A list of models, in OpenAI's form."""

    object: str
    data: list[ModelOut]


class EmbeddingOut(BaseModel):
    """The vector of one text, in OpenAI's form."""

    object: str
    index: int
    embedding: list[float] | str = Field(description="as `encoding_format` says: numbers, or base64 of 32-bit floats")


class EmbeddingUsageOut(BaseModel):
    """The tokens of all texts of a request."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsOut(BaseModel):
    """The vectors of texts, in their order, in OpenAI's form."""

    object: str
    data: list[EmbeddingOut]
    model: str
    usage: EmbeddingUsageOut


# Topics


class TopicsOut(BaseModel):
    """The topics of a conversation."""

    topics: list[Topic]


class TopicHitsOut(BaseModel):
    """Topics that match a search."""

    topics: list[TopicHit]


class TopicChangeIn(RequestBody):
    """New values of a topic. Fields that are not sent stay as they are."""

    title: Annotated[str, Field(min_length=1, max_length=500), AnyText] | None = None
    tags: list[Name] | None = Field(None, max_length=100)
    pinned: bool | None = None
    importance: float | None = Field(None, ge=0, le=1)
    state: Literal["warm", "cold"] | None = Field(None, description="cold: archive it now; warm: bring it back")


class MergeIn(RequestBody):
    """The topic to merge."""

    topic: Name = Field(examples=["t-3c4d"])


class SplitIn(RequestBody):
    """The messages to move into a new topic, and its title."""

    messages: list[Name] = Field(min_length=1, max_length=1000)
    title: Title | None = None


class DecayPointOut(BaseModel):
    """A topic's priority at a moment."""

    at: datetime
    priority: float


class DecayOut(BaseModel):
    """A topic's priority over time."""

    points: list[DecayPointOut]


# Settings


def _optional(field: FieldInfo) -> tuple[Any, Any]:
    """Return type and default of a setting's field with its limits, but with null as the default."""
    constraints = [*field.metadata, *([WholeNumber] if field.annotation is int else [])]
    kind: Any = Annotated[field.annotation, *constraints] if constraints else field.annotation
    return kind | None, Field(None, description=field.description)


_CHANGEABLE: dict[str, Any] = {
    name: _optional(field) for name, field in Settings.model_fields.items() if name not in FIXED_AT_START
}
if TYPE_CHECKING:
    SettingChangesIn = RequestBody  # at run time: one field for each setting that can be changed
else:
    SettingChangesIn = create_model("SettingChangesIn", __base__=RequestBody, **_CHANGEABLE)


class SettingsChangeIn(RequestBody):
    """Changes of settings."""

    changes: SettingChangesIn = Field(description="new values by name; null takes a change back")
    everybody: bool = Field(
        False, description="change them for all who have not chosen a value themselves; needs the scope admin"
    )


class SettingsOut(BaseModel):
    """The settings in force."""

    settings: dict[str, Any]
    origins: dict[str, str] = Field(description="where each value comes from")
    personal: list[str] = Field(description="the settings that each person may change for themselves")


# The person


class PreferencesIn(RequestBody):
    """The person's preferences in a profile."""

    coding_style: ProfileText | None = Field(default=None, examples=["short functions, few comments"])
    languages: Annotated[list[ProfileText], Field(max_length=50)] | None = None
    frameworks: Annotated[list[ProfileText], Field(max_length=50)] | None = None


class AboutIn(RequestBody):
    """The person's goals and field of work in a profile."""

    goals: ProfileText | None = None
    domain: ProfileText | None = None
    constraints: ProfileText | None = None


class ProfileIn(RequestBody):
    """New values of the profile. Fields that are not sent stay as they are."""

    preferences: PreferencesIn = PreferencesIn()
    context: AboutIn = AboutIn()
    notes: Annotated[str, Field(max_length=8192), AnyText] | None = Field(None, description="at most 8 KiB")


class ConsentIn(RequestBody):
    """Whether the profile may be used from now on."""

    consent: bool


class ConsentOut(BaseModel):
    """Whether the profile may be used."""

    consent: bool


class AuditOut(BaseModel):
    """A page of the audit log."""

    entries: list[AuditEntry]
    next: int | None = Field(None, description="`before` of the next page; null on the last page")


# Keys, sessions, health


OperatorScopes = Annotated[list[Literal["read", "write", "admin"]], Field(min_length=1, max_length=3)]
ApplicationScopes = Annotated[list[Literal["read", "write", "act_as"]], Field(min_length=1, max_length=3)]
_DEFAULT_SCOPES: OperatorScopes = ["read", "write"]


class KeyIn(RequestBody):
    """A key to create."""

    person: Name
    label: Annotated[str, Field(max_length=200, pattern=r"^[^\u0000]*$")] = ""
    department: Name | None = None
    ministry: Name | None = None
    clearances: list[Name] = Field([], max_length=20)
    scopes: OperatorScopes | ApplicationScopes = Field(
        _DEFAULT_SCOPES,
        description="`act_as`: an application's key, which names the person of each request; never with `admin`",
    )
    days: float | None = Field(None, gt=0, le=36_500, description="until it expires; null: never")


class KeysOut(BaseModel):
    """All keys, without their tokens."""

    keys: list[Key]


class LoginIn(RequestBody):
    """The key to log in with."""

    key: Annotated[str, Field(max_length=500)]


class SessionOut(BaseModel):
    """The session of a browser."""

    person: str | None
    scopes: list[str]
    csrf: str | None = Field(description="send it as X-CSRF-Token with every request that changes something")
    keys: bool = Field(description="whether this server asks for keys")


class HealthOut(BaseModel):
    """The state of the server."""

    status: str
    version: str
