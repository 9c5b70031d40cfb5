"""The one settings class, and where each value comes from.

Order, strongest first: what the constructor was given, what the person changed at run time, what the operator changed
for everybody (both kept in the database), the environment, the settings file, the default. A value can be set in the
environment as RECOLLECT_<NAME>, or under the variable name of the design documents, which is the field's own name in
capitals (RAG_HYBRID, MEMORY_K_RAW_TURNS, …).
"""

from __future__ import annotations

import json
import logging
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recollect.core.errors import InvalidInput

log = logging.getLogger(__name__)

FILE_VARIABLE: Final = "RECOLLECT_SETTINGS"
DEFAULT_FILE: Final = "recollect.toml"


class Settings(BaseModel):
    """Every value has a default that works with no key and no network."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    # The prompt (document D)
    memory_k_raw_turns: int = Field(3, ge=1, le=100, description="turns of the tail kept word for word")
    memory_summary_token_cap: int = Field(500, ge=50, le=10_000, description="longest narrative, in tokens")
    memory_prompt_token_budget: int = Field(3000, ge=200, le=1_000_000, description="whole context, in tokens")
    memory_chunk_summarize_threshold: int = Field(
        6000, ge=0, le=1_000_000, description="fold older turns above so many tokens; 0: off"
    )
    memory_summarizer_model: str | None = Field(None, description="model that writes briefs; none: built in")
    prompt_id_summary_global: str | None = Field(None, description="hosted prompt that writes briefs")
    prompt_version_summary_global: str | None = Field(None, description="version of that prompt")

    # When older turns are folded into the brief (documents A and B), and how long it is
    compress_messages_at: int = Field(0, ge=0, le=100_000, description="fold at so many messages; 0: off")
    compress_messages_keep: int = Field(3, ge=1, le=100_000, description="messages that are then kept")
    compress_tokens_above: int = Field(0, ge=0, le=1_000_000, description="fold above so many tokens; 0: off")
    compress_tokens_keep: int = Field(2500, ge=1, le=1_000_000, description="tokens of turns that are then kept")
    compress_tokens_until: int = Field(0, ge=0, le=1_000_000, description="or fold until so many are left; 0: off")
    compress_daily: bool = Field(False, description="fold what came before today")
    narrative_policy: Literal["tokens", "words"] = Field("tokens", description="length of the narrative: cap or ladder")
    memory_brief_token_budget: int = Field(1000, ge=0, le=100_000, description="brief and ledger in the context")

    # Recall (document E)
    rag_hybrid: bool = Field(True, description="full text and vectors together")
    rag_chunking: bool = Field(True, description="index passages, not only whole messages")
    rag_token_budget: int = Field(1000, ge=0, le=1_000_000, description="recall's share of the context, in tokens")
    rag_summary_frequency: int = Field(0, ge=0, le=10_000, description="brief after every N answers; 0: off")
    rag_rerank_alpha: float = Field(0.6, ge=0, le=1, description="weight of dense similarity")
    rag_rerank_beta: float = Field(0.4, ge=0, le=1, description="weight of BM25")
    rag_rerank_gamma: float = Field(0.1, ge=0, le=1, description="weight of identifiers")
    backfill_chunks: bool = Field(True, description="cut old messages into passages too")

    # Topics (document C)
    max_topics: int = Field(20, ge=1, le=100_000, description="topics of a conversation before faded ones leave")
    similarity_threshold: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="similarity from which a message joins a topic; none: as measured for the embedder",
    )
    base_half_life_seconds: float = Field(86_400, ge=1, le=1e9, description="half-life of a new topic")
    max_half_life_seconds: float = Field(2_592_000, ge=1, le=1e9, description="longest half-life")
    access_threshold_for_lt: int = Field(5, ge=1, le=10_000, description="accesses that double the half-life")
    max_messages_per_topic: int = Field(12, ge=1, le=1_000_000, description="messages before older ones are archived")
    recent_message_keep: int = Field(4, ge=0, le=1_000_000, description="messages that are then kept")
    topic_summary_token_cap: int = Field(120, ge=20, le=10_000, description="longest summary of a topic, in tokens")

    # Model and embedder by an OpenAI-compatible address
    model_url: str | None = Field(None, description="base URL of a chat model")
    model_name: str | None = Field(None, description="its name there")
    embedder_url: str | None = Field(None, description="base URL of an embedder; none: built in")
    embedder_name: str | None = Field(None, description="its name there")
    embedder_dimensions: int = Field(384, ge=1, le=8192, description="length of its vectors")
    api_key: str | None = Field(None, repr=False, description="key for both; never stored")
    provider_timeout_seconds: float = Field(30, gt=0, le=3600, description="longest wait for one answer")
    provider_retries: int = Field(2, ge=0, le=10, description="further tries after a passing failure")

    # Chat
    chat_system_prompt: str = Field(
        "You are a helpful assistant. What stands between <memory> tags was said earlier: use it where it helps.",
        max_length=20_000,
        description="what a model is told first in a chat, unless the caller says it",
    )
    chat_timeout_seconds: float = Field(600, gt=0, le=86_400, description="longest whole answer of a chat model")

    # The server
    server_hosts: str = Field("", description="further names under which the server may be asked for, by commas")
    server_origins: str = Field("", description="web pages elsewhere that may call it, by commas")
    server_body_bytes: int = Field(2 * 1024 * 1024, ge=1024, le=1 << 30, description="largest body of a request")
    server_rate_per_minute: int = Field(1200, ge=0, le=10_000_000, description="requests of one key; 0: no limit")
    server_streams: int = Field(64, ge=1, le=100_000, description="answers that may be written for one person at once")
    server_session_hours: float = Field(12, gt=0, le=24 * 365, description="how long a login lasts")

    # The worker and imports
    worker_poll_seconds: float = Field(1.0, ge=0.01, le=3600, description="how often to look for others' work")
    worker_lease_seconds: float = Field(60.0, ge=0.05, le=3600, description="how long a claim on work holds")
    import_record_bytes: int = Field(16 * 1024 * 1024, ge=1024, description="largest single record of an import")


_PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "A": {
        "compress_messages_at": 5, "compress_messages_keep": 3, "memory_chunk_summarize_threshold": 0,
        "memory_prompt_token_budget": 4000,
    },
    "B": {
        "compress_tokens_above": 3000, "compress_tokens_keep": 2500, "memory_chunk_summarize_threshold": 0,
        "narrative_policy": "words", "memory_prompt_token_budget": 3000,
    },
    "C": {"memory_chunk_summarize_threshold": 0},
    "D": {
        "memory_k_raw_turns": 3, "memory_summary_token_cap": 500, "memory_prompt_token_budget": 3000,
        "memory_chunk_summarize_threshold": 6000, "narrative_policy": "tokens",
    },
    "E": {
        "rag_summary_frequency": 5, "memory_chunk_summarize_threshold": 0, "rag_hybrid": True, "rag_chunking": True,
        "rag_token_budget": 1000, "rag_rerank_alpha": 0.6, "rag_rerank_beta": 0.3, "rag_rerank_gamma": 0.1,
    },
}  # fmt: skip
_PRESET_NAMES: Final = {"compact": "A", "sessions": "B", "topics": "C", "briefs": "D", "recall": "E"}


def preset(name: str) -> Settings:
    """The settings of one of the design documents, by its letter or name."""
    letter = _PRESET_NAMES.get(name.strip().lower(), name.strip().upper())
    if letter not in _PRESETS:
        known = ", ".join(f"{one} ({called})" for called, one in _PRESET_NAMES.items())
        raise InvalidInput("unknown_preset", f"There is no preset {name[:40]!r}; there are {known}.")
    return Settings(**_PRESETS[letter])


# Where text and keys are sent to is the operator's word, given at the start; nobody changes it at run time.
FIXED: Final = frozenset(
    (
        "model_url", "model_name", "embedder_url", "embedder_name", "embedder_dimensions", "api_key",
        "provider_timeout_seconds", "provider_retries", "memory_summarizer_model",
        "prompt_id_summary_global", "prompt_version_summary_global", "chat_timeout_seconds", "server_hosts",
        "server_origins", "server_body_bytes", "server_rate_per_minute", "server_streams", "server_session_hours",
    )
)  # fmt: skip


# What each person may choose: how their own prompts, briefs and topics are made. The rest is the operator's.
PERSONAL: Final = frozenset(
    name
    for name in Settings.model_fields
    if name not in FIXED and not name.startswith(("worker_", "import_", "server_", "backfill_", "chat_"))
)


@dataclass(frozen=True, slots=True)
class Layered:
    """Settings with the origin of each value: constructor, stored, operator, environment, file or default."""

    settings: Settings
    origins: dict[str, str]


def layer(
    given: Settings | None,
    stored: Mapping[str, str],
    environment: Mapping[str, Any],
    file: Mapping[str, Any],
    *,
    operator: Mapping[str, str] | None = None,
) -> Layered:
    """Put the layers on each other and check the result."""
    explicit = given.model_dump(include=given.model_fields_set) if given is not None else {}
    layers = (
        ("file", file),
        ("environment", environment),
        ("operator", _usable(operator or {})),
        ("stored", _usable(stored)),
        ("constructor", explicit),
    )
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    for origin, found in layers:
        for name, value in found.items():
            values[name], origins[name] = value, origin
    return Layered(check(values, origins), origins)


def _usable(stored: Mapping[str, str]) -> dict[str, Any]:
    """Stored changes that this version understands. One that it does not must not lock anybody out."""
    usable = {}
    for name, text in stored.items():
        if name in Settings.model_fields and name not in FIXED:
            try:
                usable[name] = getattr(check({name: json.loads(text)}), name)
            except (InvalidInput, ValueError):
                log.warning("the stored setting %s is not valid here and is left out", name)
    return usable


def check(values: Mapping[str, Any], origins: Mapping[str, str] | None = None) -> Settings:
    try:
        return Settings(**values)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        where = f" (from {origins[name]})" if origins and name in origins else ""
        raise InvalidInput("invalid_setting", f"{name}{where}: {first['msg']}.") from None


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The values that variables set, under the field's name. RECOLLECT_ names win over the documents' own."""
    found = {}
    for name in Settings.model_fields:
        for variable in (f"RECOLLECT_{name.upper()}", name.upper() if _is_document_name(name) else ""):
            if variable and environ.get(variable, "") != "":
                found[name] = environ[variable]
                break
    return found


def _is_document_name(name: str) -> bool:
    return name.startswith(("memory_", "rag_", "prompt_")) or name == "backfill_chunks"


def from_file(path: Path, *, named: bool) -> dict[str, Any]:
    """A TOML file, flat or under a table [recollect]. One that is missing sets nothing.

    A file that merely lies in the current folder may not say where text and keys are sent to, unless it is `named`.
    """
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidInput("invalid_settings_file", f"{path} cannot be read: {error.strerror}.") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput("invalid_settings_file", f"{path} is not TOML: {error}.") from error
    table = values.get("recollect", values)
    if not isinstance(table, dict):
        raise InvalidInput("invalid_settings_file", f"[recollect] in {path} must be a table.")
    unknown = set(table) - set(Settings.model_fields)
    if unknown:
        raise InvalidInput("invalid_setting", f"{path} sets {sorted(unknown)[0]!r}, which is no setting.")
    sent = sorted(set(table) & {"model_url", "embedder_url"})
    if sent and not named:
        reason = f"{path} sets {sent[0]}; name the file by {FILE_VARIABLE} if it is yours."
        raise InvalidInput("untrusted_settings_file", reason)
    return table


def checked_changes(current: Settings, changes: Mapping[str, Any]) -> dict[str, str | None]:
    """Changes at run time, as JSON texts to store; None takes a change back."""
    unknown = set(changes) - set(Settings.model_fields)
    if unknown:
        raise InvalidInput("unknown_setting", f"There is no setting {sorted(unknown)[0]!r}.")
    fixed = sorted(set(changes) & FIXED)
    if fixed:
        raise InvalidInput("setting_fixed", f"{fixed[0]} is set at the start: by constructor, environment or file.")
    wanted = {name: value for name, value in changes.items() if value is not None}
    checked = check(current.model_dump() | wanted)
    return {name: json.dumps(getattr(checked, name)) if name in wanted else None for name in changes}
