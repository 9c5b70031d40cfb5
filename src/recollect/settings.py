"""The settings, their presets, and the layers that a value can come from.

The strongest layer wins. From the strongest to the weakest: the constructor; changes by the person at run time; changes
by the operator for everybody (both are kept in the database); the environment; the settings file; the default. In the
environment a setting is called RECOLLECT_<NAME>. Names that begin with MEMORY_, RAG_ or PROMPT_ also work as they are
(RAG_HYBRID, MEMORY_K_RAW_TURNS, …).
"""

from __future__ import annotations

import difflib
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

VARIABLE_PREFIX: Final = "RECOLLECT_"
SETTINGS_FILE_VARIABLE: Final = "RECOLLECT_SETTINGS"
DEFAULT_SETTINGS_FILE: Final = "recollect.toml"

_CHANGED_BY: Final = "changed_by"  # in `json_schema_extra` of each field


def _personal(default: Any, **options: Any) -> Any:
    """Declare a setting that each person may change at run time: how their own prompts, briefs and topics are made.

    Only such a setting may also come from a file that merely lies in the current folder: it loosens nothing.
    """
    return Field(default, json_schema_extra={_CHANGED_BY: "person"}, **options)


def _operated(default: Any, **options: Any) -> Any:
    """Declare a setting that the operator may change at run time, for everybody."""
    return Field(default, json_schema_extra={_CHANGED_BY: "operator"}, **options)


def _fixed(default: Any, **options: Any) -> Any:
    """Declare a setting that is read once at the start: by constructor, environment or a file that the operator names.

    Most decide where text and keys are sent to, who may call the server, and how much one caller may use.
    """
    return Field(default, json_schema_extra={_CHANGED_BY: "nobody"}, **options)


class Settings(BaseModel):
    """All settings. Every value has a default that works with no key and no network."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    # The prompt
    memory_k_raw_turns: int = _personal(
        3, ge=1, le=100, description="newest turns that stay word for word in the prompt"
    )
    memory_tail_first: bool = _personal(
        False, description="show these turns whenever they fit the prompt; brief and recall get what they leave"
    )
    memory_summary_token_cap: int = _personal(
        500, ge=50, le=10_000, description="longest narrative of a brief, in tokens"
    )
    memory_prompt_token_budget: int = _personal(3000, ge=200, le=1_000_000, description="most tokens of a whole prompt")
    memory_chunk_summarize_threshold: int = _personal(
        6000,
        ge=0,
        le=1_000_000,
        description="compress all but the newest turns above so many tokens of brief and turns; 0: off",
    )
    memory_summarizer_model: str | None = _fixed(
        None, description="name of the model that writes briefs; none: the built-in summariser"
    )
    prompt_id_summary_global: str | None = _fixed(None, description="id of a hosted prompt that writes briefs")
    prompt_version_summary_global: str | None = _fixed(None, description="version of that hosted prompt")

    # When older turns are compressed into the brief, and how long it is
    compress_messages_at: int = _personal(0, ge=0, le=100_000, description="compress at so many messages; 0: off")
    compress_messages_keep: int = _personal(3, ge=1, le=100_000, description="newest messages that are then kept")
    compress_tokens_above: int = _personal(
        0, ge=0, le=1_000_000, description="compress above so many tokens, with the system prompt; 0: off"
    )
    compress_tokens_keep: int = _personal(
        2500, ge=1, le=1_000_000, description="most tokens of newest turns that are then kept"
    )
    compress_tokens_until: int = _personal(
        0,
        ge=0,
        le=1_000_000,
        description="tokens that are then left in all, with system prompt and brief, at most half of those above; "
        "0: a third of them",
    )
    compress_daily: bool = _personal(False, description="compress what was said before today")
    compress_must_pay: bool = _personal(True, description="put a compression off while it would make prompts longer")
    narrative_policy: Literal["tokens", "words"] = _personal(
        "tokens", description="what limits the narrative: tokens, or a number of words that grows with each version"
    )
    narrative_form: Literal["prose", "bullets"] = _personal(
        "prose", description="how the narrative is written: as running text, or as bullet points"
    )
    memory_brief_token_budget: int = _personal(
        1000, ge=0, le=100_000, description="most tokens of brief and ledger in a prompt"
    )

    # Recall
    rag_hybrid: bool = _personal(True, description="search by words and by vectors together")
    rag_chunking: bool = _personal(True, description="index passages, not only whole messages")
    rag_token_budget: int = _personal(
        1000, ge=0, le=1_000_000, description="most tokens of recalled passages in a prompt"
    )
    rag_summary_frequency: int = _personal(0, ge=0, le=10_000, description="compress after every N answers; 0: off")
    rag_rerank_alpha: float = _personal(0.6, ge=0, le=1, description="weight of vector similarity")
    rag_rerank_beta: float = _personal(0.4, ge=0, le=1, description="weight of the words (BM25)")
    rag_rerank_gamma: float = _personal(0.1, ge=0, le=1, description="weight of shared identifiers")
    backfill_chunks: bool = _operated(True, description="cut old messages into passages too")

    # Topics
    max_topics: int = _personal(
        20, ge=1, le=100_000, description="topics of a conversation above which faded ones become cold"
    )
    similarity_threshold: float | None = _personal(
        None,
        ge=-1,
        le=1,
        description="similarity from which a message joins a topic; none: as measured for the embedder",
    )
    topic_merge_threshold: float | None = _personal(
        None, ge=-1, le=1, description="similarity from which topics are merged by themselves; none: only proposed"
    )
    base_half_life_seconds: float = _personal(86_400, ge=1, le=1e9, description="half-life of a new topic, in seconds")
    max_half_life_seconds: float = _personal(
        2_592_000, ge=1, le=1e9, description="longest half-life of a topic, in seconds"
    )
    access_threshold_for_lt: int = _personal(
        5, ge=1, le=10_000, description="the half-life doubles with every so many accesses"
    )
    max_messages_per_topic: int = _personal(
        12, ge=1, le=1_000_000, description="messages of a topic above which older ones are archived"
    )
    recent_message_keep: int = _personal(4, ge=0, le=1_000_000, description="newest messages that are then kept")
    topic_summary_token_cap: int = _personal(120, ge=20, le=10_000, description="longest summary of a topic, in tokens")

    # Model and embedder behind an OpenAI-compatible URL
    model_url: str | None = _fixed(None, description="base URL of a chat model")
    model_name: str | None = _fixed(None, description="name of the chat model there")
    embedder_url: str | None = _fixed(None, description="base URL of an embedder; none: the built-in one")
    embedder_name: str | None = _fixed(None, description="name of the embedder there")
    embedder_dimensions: int = _fixed(384, ge=1, le=8192, description="numbers in a vector of that embedder")
    api_key: str | None = _fixed(None, repr=False, description="key of the model, and of an embedder there; not stored")
    embedder_api_key: str | None = _fixed(None, repr=False, description="key of the embedder; never stored")
    provider_timeout_seconds: float = _fixed(30, gt=0, le=3600, description="longest wait for one answer, in seconds")
    provider_retries: int = _fixed(
        2, ge=0, le=10, description="further attempts after a temporary failure; chat answers have none"
    )

    # Chat
    chat_system_prompt: str = _operated(
        "You are a helpful assistant. What stands between <memory> tags was said earlier: use it where it helps.",
        max_length=20_000,
        description="system prompt of a chat whose request has none",
    )
    chat_timeout_seconds: float = _fixed(
        600, gt=0, le=86_400, description="longest time for a whole answer of a chat model, in seconds"
    )

    # The server
    server_hosts: str = _fixed(
        "", description="further host names that requests to the server may use, separated by commas"
    )
    server_origins: str = _fixed(
        "", description="origins of other web pages that may call the server, separated by commas"
    )
    server_body_bytes: int = _fixed(
        2 * 1024 * 1024, ge=1024, le=1 << 30, description="largest body of a request, in bytes"
    )
    server_body_seconds: float = _fixed(60, gt=0, le=3600, description="time for a body to arrive, in seconds")
    server_head_bytes: int = _fixed(
        64 * 1024, ge=1024, le=1 << 20, description="largest request line and headers together, in bytes"
    )
    server_head_seconds: float = _fixed(
        10, gt=0, le=3600, description="time for request line and headers to arrive, in seconds"
    )
    server_connections: int = _fixed(
        2000,
        ge=10,
        le=1_000_000,
        description="open connections of a process; above, those that wait longest are closed",
    )
    server_rate_per_minute: int = _fixed(
        1200, ge=0, le=10_000_000, description="requests per minute of one key; 0: no limit"
    )
    server_streams: int = _fixed(64, ge=1, le=100_000, description="answers that may be written for one person at once")
    server_session_hours: float = _fixed(12, gt=0, le=24 * 365, description="hours that a login lasts")

    # The worker and imports
    worker_poll_seconds: float = _operated(
        1.0, ge=0.01, le=3600, description="how often to look for work that other processes left, in seconds"
    )
    worker_lease_seconds: float = _operated(
        60.0, ge=0.05, le=3600, description="seconds that a lease on work lasts unless it is renewed"
    )
    import_record_bytes: int = _operated(
        16 * 1024 * 1024, ge=1024, description="largest record of an imported file, in bytes"
    )


_PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "compact": {
        "compress_messages_at": 5, "compress_messages_keep": 3, "memory_chunk_summarize_threshold": 0,
        "memory_prompt_token_budget": 4000, "memory_k_raw_turns": 2,
    },
    "sessions": {
        "compress_tokens_above": 3000, "compress_tokens_keep": 2500, "memory_chunk_summarize_threshold": 0,
        "narrative_policy": "words", "memory_prompt_token_budget": 3000,
    },
    "topics": {"memory_chunk_summarize_threshold": 0},
    "briefs": {
        "memory_k_raw_turns": 3, "memory_tail_first": True, "memory_summary_token_cap": 500,
        "memory_prompt_token_budget": 3000,
        "memory_chunk_summarize_threshold": 6000, "narrative_policy": "tokens",
    },
    "recall": {
        "rag_summary_frequency": 5, "memory_chunk_summarize_threshold": 0, "rag_hybrid": True, "rag_chunking": True,
        "memory_summary_token_cap": 200, "narrative_form": "bullets", "rag_token_budget": 1000,
        "rag_rerank_alpha": 0.6, "rag_rerank_beta": 0.3, "rag_rerank_gamma": 0.1,
    },
}  # fmt: skip
_PRESET_BY_LETTER: Final = {"a": "compact", "b": "sessions", "c": "topics", "d": "briefs", "e": "recall"}


def preset(name: str) -> Settings:
    """Return the settings of a preset: compact, sessions, topics, briefs or recall. The letters A to E are aliases."""
    preset_name = _PRESET_BY_LETTER.get(name.strip().lower(), name.strip().lower())
    if preset_name not in _PRESETS:
        names = ", ".join(f"{preset} ({letter.upper()})" for letter, preset in _PRESET_BY_LETTER.items())
        raise InvalidInput("unknown_preset", f"There is no preset {name[:40]!r}; there are {names}.")
    return Settings(**_PRESETS[preset_name])


def _changed_by(who: str) -> frozenset[str]:
    fields = Settings.model_fields.items()
    return frozenset(name for name, field in fields if field.json_schema_extra == {_CHANGED_BY: who})


CHANGED_BY_OPERATOR: Final = _changed_by("operator")
CHOSEN_BY_PERSON: Final = _changed_by("person")
FIXED_AT_START: Final = frozenset(Settings.model_fields) - CHANGED_BY_OPERATOR - CHOSEN_BY_PERSON
SECRET_SETTINGS: Final = frozenset(name for name, field in Settings.model_fields.items() if not field.repr)
OTHER_VARIABLES: Final = ("DB", "PERSON", "PRESET", "SETTINGS", "KEY", "KEY_SECRET")  # RECOLLECT_… that are no settings


@dataclass(frozen=True, slots=True)
class LayeredSettings:
    """Settings with the origin of each value: constructor, stored, operator, environment, file or default.

    `stored` stands for what the person changed, `operator` for what the operator changed for everybody.
    """

    settings: Settings
    origins: dict[str, str]


def merge_layers(
    constructor: Settings | None,
    stored: Mapping[str, str],
    environment: Mapping[str, Any],
    file: Mapping[str, Any],
    *,
    operator: Mapping[str, str] | None = None,
) -> LayeredSettings:
    """Merge the layers and check the result. A later layer below replaces the values of those before it.

    `stored` and `operator` are changes at run time as JSON texts. A stored value that is not valid is left out.
    """
    explicit = constructor.model_dump(include=constructor.model_fields_set) if constructor is not None else {}
    layers = (
        ("file", file),
        ("environment", environment),
        ("operator", _parse_stored(operator or {})),
        ("stored", _parse_stored(stored)),
        ("constructor", explicit),
    )
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    for origin, layer in layers:
        for name, value in layer.items():
            values[name], origins[name] = value, origin
    return LayeredSettings(validate(values, origins), origins)


def _parse_stored(stored: Mapping[str, str]) -> dict[str, Any]:
    """Return the stored changes that this version understands. An invalid one must not keep a memory from opening."""
    values = {}
    for name, text in stored.items():
        if name in Settings.model_fields and name not in FIXED_AT_START:
            try:
                values[name] = getattr(validate({name: json.loads(text)}), name)
            except (InvalidInput, ValueError):
                log.warning("the stored setting %s is not valid here and is left out", name)
    return values


def validate(values: Mapping[str, Any], origins: Mapping[str, str] | None = None) -> Settings:
    """Return settings with these values. Raise InvalidInput that names the first wrong one and its origin."""
    try:
        return Settings(**values)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        where = f" (from {origins[name]})" if origins and name in origins else ""
        raise InvalidInput("invalid_setting", f"{name}{where}: {first['msg']}.") from None


def read_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values of set variables, by setting. A name with RECOLLECT_ wins over the plain name."""
    values = {}
    for name in Settings.model_fields:
        for variable in (f"{VARIABLE_PREFIX}{name.upper()}", name.upper() if _has_plain_variable(name) else ""):
            if variable and environ.get(variable, "") != "":
                values[name] = environ[variable]
                break
    return values


def _has_plain_variable(name: str) -> bool:
    return name.startswith(("memory_", "rag_", "prompt_")) or name == "backfill_chunks"


def find_unknown_variables(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return the set variables RECOLLECT_… that nothing reads, each with a known name that is much like it."""
    known, skip = [name.upper() for name in (*OTHER_VARIABLES, *Settings.model_fields)], len(VARIABLE_PREFIX)
    unknown = sorted(name for name in environ if name.startswith(VARIABLE_PREFIX) and name[skip:] not in known)
    similar = {name: difflib.get_close_matches(name[skip:], known, n=1, cutoff=0.7) for name in unknown}
    return {name: f"{VARIABLE_PREFIX}{names[0]}" if names else None for name, names in similar.items()}


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The settings of a file. `ignored` names those it sets but may not, because nobody named the file."""

    path: Path
    values: dict[str, Any]
    ignored: tuple[str, ...] = ()


def read_settings_file(environ: Mapping[str, str]) -> SettingsFile:
    """Read the settings file that the environment names, else the one in the current folder, which may be missing.

    It is TOML, flat or under a table [recollect]. A file that merely lies in the current folder may come from anybody,
    with a download for example. So only what each person may choose is taken from it.
    """
    named = environ.get(SETTINGS_FILE_VARIABLE) or None
    path = Path(named or DEFAULT_SETTINGS_FILE)
    table = _read_table(path, must_exist=named is not None)
    unknown = set(table) - set(Settings.model_fields)
    if unknown:
        raise InvalidInput("invalid_setting", f"{path} sets {sorted(unknown)[0]!r}, which is no setting.")
    if named is not None:
        return SettingsFile(path, table)
    ignored = tuple(sorted(set(table) - CHOSEN_BY_PERSON))
    return SettingsFile(path, {name: table[name] for name in table if name not in ignored}, ignored)


def _read_table(path: Path, *, must_exist: bool) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if must_exist:
            detail = f"{SETTINGS_FILE_VARIABLE} names {path}, and there is no such file."
            raise InvalidInput("invalid_settings_file", detail) from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput("invalid_settings_file", f"{path} cannot be read: {reason}.") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput("invalid_settings_file", f"{path} is not TOML: {error}.") from error
    table = values.get("recollect", values)
    if not isinstance(table, dict):
        raise InvalidInput("invalid_settings_file", f"[recollect] in {path} must be a table.")
    return table


def check_changes(current: Settings, changes: Mapping[str, Any]) -> dict[str, str | None]:
    """Check changes at run time and return them as JSON texts to store. None takes a change back."""
    unknown = set(changes) - set(Settings.model_fields)
    if unknown:
        raise InvalidInput("unknown_setting", f"There is no setting {sorted(unknown)[0]!r}.")
    fixed = sorted(set(changes) & FIXED_AT_START)
    if fixed:
        raise InvalidInput("setting_fixed", f"{fixed[0]} is set at the start: by constructor, environment or file.")
    new_values = {name: value for name, value in changes.items() if value is not None}
    checked = validate(current.model_dump() | new_values)
    return {name: json.dumps(getattr(checked, name)) if name in new_values else None for name in changes}
