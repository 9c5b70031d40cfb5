"""Composes a memory: makes driver, store, model, embedder and clock from a location and settings.

Environment and settings file are read here alone, once, when a memory is made.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from recollect.core.errors import InvalidInput
from recollect.core.models import Finding
from recollect.core.protocols import Clock, Embedder, Model
from recollect.providers.chat import Upstream
from recollect.providers.openai import OpenAIEmbedder, OpenAIModel
from recollect.providers.resilience import Timeouts
from recollect.settings import (
    SETTINGS_FILE_VARIABLE,
    Settings,
    SettingsFile,
    find_unknown_variables,
    merge_layers,
    preset,
    read_environment,
    read_settings_file,
)
from recollect.storage.driver import Driver
from recollect.storage.store import SqlStore

log = logging.getLogger(__name__)

_POSTGRES_SCHEMES: Final = ("postgresql://", "postgres://")
_MODEL_UNNAMED: Final = (
    "model_url names no model: set model_name too (RECOLLECT_MODEL_NAME), "
    "or prompt_id_summary_global for a hosted prompt (RECOLLECT_PROMPT_ID_SUMMARY_GLOBAL)."
)
_EMBEDDER_UNNAMED: Final = "embedder_url names no embedder: set embedder_name too (RECOLLECT_EMBEDDER_NAME)."
_LIBPQ_PARAMETER: Final = re.compile(r"(^|\s)(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=")
MAX_CONNECT_SECONDS: Final = 5.0
KEY_SECRET_VARIABLE: Final = "RECOLLECT_KEY_SECRET"  # noqa: S105 - the name of a variable


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Return the current moment in UTC."""
        return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Components:
    """The parts of a memory that are made from its arguments and settings.

    `given`, `environment` and `file` are the settings of the constructor, the environment and the settings file.
    """

    store: SqlStore
    driver: Driver
    database: Path | None  # the file of an SQLite database
    clock: Clock
    model: Model | None
    hosted: bool  # the model has a prompt of its own and answers with plain text
    embedder: Embedder | None
    upstream: Upstream | None  # the model that answers people
    owned: tuple[OpenAIModel | OpenAIEmbedder | Upstream, ...]  # made here, so closed with the memory
    given: Settings | None
    environment: dict[str, Any]
    file: dict[str, Any]
    notices: tuple[Finding, ...] = ()  # settings and variables without effect
    key_secret: str | None = field(default=None, repr=False)  # hashes of keys; none: one that the database keeps


def compose(
    location: str | os.PathLike[str],
    *,
    settings: Settings | str | None = None,
    model: Model | None = None,
    embedder: Embedder | None = None,
    clock: Clock | None = None,
) -> Components:
    """Make the parts of a memory. Nothing is opened yet. Raise InvalidInput for an argument that does not fit."""
    if isinstance(settings, str):
        settings = preset(settings)
    if settings is not None and not isinstance(settings, Settings):
        raise InvalidInput("invalid_settings", "`settings` takes a Settings object or the name of a preset.")
    environment, file = read_environment(os.environ), read_settings_file(os.environ)
    start_settings = merge_layers(settings, {}, environment, file.values).settings
    notices = (*find_notices(file, os.environ), *_find_idle_key(start_settings))
    _log_once(notices)
    if embedder is not None and not _is_embedder(embedder):
        raise InvalidInput("invalid_embedder", "An embedder has a name, dimensions and an async method embed(texts).")
    if model is not None and not _is_model(model):
        raise InvalidInput(
            "invalid_model", "A model has a name and an async method complete(messages, *, schema, max_tokens)."
        )
    driver = make_driver(location)
    own_model = make_model(start_settings) if model is None else None
    own_embedder = make_embedder(start_settings) if embedder is None else None
    upstream = make_upstream(start_settings)
    return Components(
        store=SqlStore(driver),
        driver=driver,
        database=sqlite_file(location),
        clock=clock or SystemClock(),
        model=model or own_model,
        hosted=own_model is not None and start_settings.prompt_id_summary_global is not None,
        embedder=embedder or own_embedder,
        upstream=upstream,
        owned=tuple(part for part in (own_model, own_embedder, upstream) if part is not None),
        given=settings,
        environment=environment,
        file=file.values,
        notices=notices,
        key_secret=os.environ.get(KEY_SECRET_VARIABLE) or None,
    )


def find_model_name(preset_name: str | None = None) -> str | None:
    """Return the name of the model that answers people in a memory made now; None if the built-in assistant does."""
    chosen = preset(preset_name) if preset_name is not None else None
    environment, file = read_environment(os.environ), read_settings_file(os.environ)
    settings = merge_layers(chosen, {}, environment, file.values).settings
    return settings.model_name if settings.model_url is not None else None


def find_notices(file: SettingsFile, environ: Mapping[str, str]) -> list[Finding]:
    """Return what a file or the environment says without effect: ignored settings, unknown variables RECOLLECT_…"""
    notices = []
    if file.ignored:
        names = ", ".join(file.ignored)
        detail = f"ignored in {file.path}, because nobody named this file: {names}"
        notices.append(
            Finding("settings file", "warning", detail, f"if it is yours: {SETTINGS_FILE_VARIABLE}={file.path}")
        )
    for name, similar in find_unknown_variables(environ).items():
        fix = f"did you mean {similar}?" if similar is not None else "unset it"
        notices.append(Finding("environment", "warning", f"nothing reads the variable {name}", fix))
    return notices


def find_start_notices() -> list[Finding]:
    """Return the notices that a memory made now would log. A file that cannot be read has none: making one says why."""
    try:
        return find_notices(read_settings_file(os.environ), os.environ)
    except InvalidInput:
        return []


_logged: Final[set[Finding]] = set()


def _log_once(notices: Iterable[Finding]) -> None:
    """Log what is new in this process: a program may make many memories."""
    for notice in notices:
        if notice not in _logged:
            _logged.add(notice)
            log.warning("%s (%s)", notice.detail, notice.fix)


def _is_embedder(value: object) -> bool:
    is_described = isinstance(getattr(value, "name", None), str) and isinstance(getattr(value, "dimensions", None), int)
    return is_described and inspect.iscoroutinefunction(getattr(value, "embed", None))


def _is_model(value: object) -> bool:
    complete = getattr(value, "complete", None)
    if not isinstance(getattr(value, "name", None), str) or not inspect.iscoroutinefunction(complete):
        return False
    try:
        inspect.signature(complete).bind([], schema=None, max_tokens=None)
    except TypeError:
        return False
    return True


def make_model(settings: Settings) -> OpenAIModel | None:
    """Return the model at `model_url`, if one is set. Its address and key are fixed when the memory is made."""
    if settings.model_url is None:
        return None
    name = settings.memory_summarizer_model or settings.model_name
    if name is None and settings.prompt_id_summary_global is None:
        raise InvalidInput("invalid_setting", _MODEL_UNNAMED)
    return OpenAIModel(
        settings.model_url,
        name or settings.prompt_id_summary_global or "",
        api_key=settings.api_key,
        prompt_id=settings.prompt_id_summary_global,
        prompt_version=settings.prompt_version_summary_global,
        timeout=_timeouts(settings),
        retries=settings.provider_retries,
    )


def make_upstream(settings: Settings) -> Upstream | None:
    """Return the chat model at `model_url`, if `model_name` is set too."""
    if settings.model_url is None or settings.model_name is None:
        return None
    return Upstream(
        settings.model_url,
        settings.model_name,
        settings.api_key,
        piece_timeout=settings.provider_timeout_seconds,
        answer_timeout=settings.chat_timeout_seconds,
    )


def make_embedder(settings: Settings) -> OpenAIEmbedder | None:
    """Return the embedder at `embedder_url`, if one is set."""
    if settings.embedder_url is None:
        return None
    if settings.embedder_name is None:
        raise InvalidInput("invalid_setting", _EMBEDDER_UNNAMED)
    return OpenAIEmbedder(
        settings.embedder_url,
        settings.embedder_name,
        settings.embedder_dimensions,
        api_key=_embedder_key(settings),
        timeout=_timeouts(settings),
        retries=settings.provider_retries,
    )


def _embedder_key(settings: Settings) -> str | None:
    """Return the key for the embedder. The model's key is shown to the model's own address alone."""
    if settings.embedder_api_key is not None:
        return settings.embedder_api_key
    model = _origin(settings.model_url)
    return settings.api_key if model is not None and model == _origin(settings.embedder_url) else None


def _origin(url: str | None) -> tuple[str, str, int | None] | None:
    """Return scheme, host and port of an address; None if it has no host or a port that is none."""
    try:
        parts = urlsplit(url or "")
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def _find_idle_key(settings: Settings) -> list[Finding]:
    """Return a notice if there is a key that nobody gets, beside an embedder without one."""
    has_idle_key = settings.api_key is not None and settings.model_url is None
    if not has_idle_key or settings.embedder_url is None or settings.embedder_api_key is not None:
        return []
    detail = "api_key is the model's, and no model_url is set: nobody gets it"
    return [Finding("settings", "warning", detail, "the key of the embedder is RECOLLECT_EMBEDDER_API_KEY")]


def _timeouts(settings: Settings) -> Timeouts:
    attempt = settings.provider_timeout_seconds
    return Timeouts(
        connect=min(MAX_CONNECT_SECONDS, attempt), attempt=attempt, total=attempt * (settings.provider_retries + 1)
    )


def make_driver(location: str | os.PathLike[str]) -> Driver:
    """Return the driver for a location: a path, sqlite:///path, ":memory:" or postgresql://…"""
    text = os.fspath(location) if isinstance(location, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\x00" in text:
        raise InvalidInput("invalid_location", "A location is a path, sqlite:///path or postgresql://…")
    if text.startswith(_POSTGRES_SCHEMES):
        return _make_postgres_driver(text)
    from recollect.storage.sqlite import SqliteDriver

    return SqliteDriver(_sqlite_path(text))


def has_database(location: str | os.PathLike[str]) -> bool:
    """Say whether there is a database with our tables at a location. Creates and changes nothing. Blocks."""
    driver = make_driver(location)
    try:
        return driver.has_schema()
    finally:
        driver.close()


def sqlite_file(location: str | os.PathLike[str]) -> Path | None:
    """Return the path of an SQLite database; None for PostgreSQL and ":memory:"."""
    text = os.fspath(location)
    if text.startswith(_POSTGRES_SCHEMES) or text == ":memory:":
        return None
    return Path(_sqlite_path(text))


def _sqlite_path(text: str) -> str:
    if text == ":memory:":
        return text
    if text.startswith("sqlite:"):
        scheme, _, path = text.partition(":///")
        if scheme != "sqlite" or not path.strip("/"):
            raise InvalidInput("invalid_location", "Write sqlite:///relative/path or sqlite:////absolute/path.")
        return unquote(path)
    if _LIBPQ_PARAMETER.search(text):  # the text may hold a password, so it is not repeated
        message = "PostgreSQL is named by an address, not by key=value: postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        raise InvalidInput("invalid_location", message)
    if "://" in text:
        raise InvalidInput("invalid_location", f"Unknown kind of database: {text.split('://')[0]}://")
    return text


def _make_postgres_driver(dsn: str) -> Driver:
    try:
        from recollect.storage.postgres import PostgresDriver
    except ImportError as error:
        raise InvalidInput(
            "postgres_not_installed",
            "PostgreSQL needs an extra. In the folder of Recollect run: pip install '.[postgres]'",
        ) from error
    return PostgresDriver(dsn)
