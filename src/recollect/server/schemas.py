"""The shapes of bodies that come in and of answers that have no record of their own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from recollect.access import Key
from recollect.core.models import Conversation, Hit, Message, Similar
from recollect.core.topics import Topic, TopicHit

Name = Annotated[str, Field(min_length=1, max_length=200)]
Label = Annotated[str, Field(max_length=200)]
Text = Annotated[str, Field(max_length=1024 * 1024)]
Seq = Annotated[int, Field(ge=1, le=2**53)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MessageIn(Body):
    role: Literal["user", "assistant", "system", "tool"]
    content: Text | None = None
    id: Name | None = None
    at: str | None = Field(
        None, max_length=64, description="ISO-8601; without an offset it is local", examples=["2026-11-15T09:30:00Z"]
    )
    name: Label | None = None
    source: Literal["typed", "assistant", "imported", "tool"] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: Name | None = None
    model_variant: Label | None = None
    metadata: dict[str, Any] | None = None
    importance: float | None = Field(None, ge=0, le=1)


class MessagesIn(Body):
    messages: list[MessageIn] = Field(max_length=10_000)


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
    zone: Label | None = Field(None, examples=["Asia/Riyadh"])


class ContextIn(Body):
    query: Text
    system_prompt: Text | None = None
    budget: int | None = Field(None, ge=0, le=1_000_000)
    model: Label = "gpt-4o-mini"
    at: str | None = Field(None, max_length=64, description="the moment of asking, ISO-8601")
    before: Seq | None = None
    everywhere: bool = False


class Turn(Body):
    role: Literal["user", "assistant"]
    content: Text


class ChatIn(Body):
    content: Text = ""
    model: Name | None = Field(None, description="`recollect` is the built-in assistant")
    system_prompt: Text | None = None
    budget: int | None = Field(None, ge=0, le=1_000_000)
    retry: bool = Field(False, description="answer the last question once more")
    memory: Literal["on", "read", "off"] = Field(
        "on", description="read: use memory, store nothing; off: a temporary conversation, neither used nor stored"
    )
    history: list[Turn] = Field(
        [], max_length=1000, description="what the caller keeps himself where nothing is stored"
    )


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


class Decay(BaseModel):
    points: list[tuple[str, float]] = Field(description="moments and priorities")


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


class SettingsChange(Body):
    changes: dict[Name, JsonValue] = Field(max_length=100, description="null takes a change back")
    everybody: bool = Field(False, description="for all who have not chosen otherwise; needs the scope admin")


class KeyIn(Body):
    person: Name
    label: Label = ""
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
