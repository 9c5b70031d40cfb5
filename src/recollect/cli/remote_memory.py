"""A memory at a server, asked over HTTP. The server's problems become our errors; no part of the engine runs here."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import TypeAdapter, ValidationError

from recollect.chat.run import ChatEvent, ChatRequest
from recollect.cli.chat_backend import AnswerStream
from recollect.core.compression.brief import Brief
from recollect.core.errors import (
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    ProviderUnavailable,
    RecollectError,
    StoreUnavailable,
)
from recollect.core.message import Message
from recollect.core.models import Context, Conversation, JsonObject, Recalled, Receipt
from recollect.core.topics import Topic
from recollect.settings import Settings

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
CONNECT_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 60.0  # then the server counts as gone; in a stream it sends something every 15 seconds
MAX_PAGE_MESSAGES: Final = 1000
MESSAGE_FIELDS: Final = ("content", "model", "system_prompt", "budget", "memory", "history")
RETRY_FIELDS: Final = ("retry", "model", "system_prompt", "budget")
_ERRORS_BY_STATUS: Final = {
    401: Denied, 403: Denied, 404: NotFound, 409: Conflict, 413: InvalidInput, 422: InvalidInput,
    429: ProviderUnavailable, 502: ProviderUnavailable, 503: StoreUnavailable, 504: ProviderUnavailable,
}  # fmt: skip


class RemoteMemory:
    """The memory, at a server, of the person whose key is used."""

    def __init__(self, url: str, key: str | None = None) -> None:
        import httpx

        self._host = _parse_host(url)
        self._client = httpx.Client(
            base_url=url.rstrip("/"),
            headers={"Authorization": f"Bearer {_check_key(key)}"} if key else {},
            timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
            trust_env=False,  # the key must not go to a proxy that the environment names
        )

    def close(self) -> None:
        """Close the connections to the server."""
        self._client.close()

    # Answers

    def ask(self, request: ChatRequest) -> AnswerStream:
        """Start an answer at the server and return its events."""
        stream = AnswerStream(lambda: self._stop(request.conversation))
        threading.Thread(target=self._receive, args=(request, stream), name="recollect-answer", daemon=True).start()
        return stream

    def _receive(self, request: ChatRequest, stream: AnswerStream) -> None:
        import httpx

        fields = RETRY_FIELDS if request.retry else MESSAGE_FIELDS
        body = {name: value for name, value in request.to_dict().items() if name in fields}
        last_event = ""
        try:
            with self._client.stream("post", _conversation_path(request.conversation, "chat"), json=body) as response:
                if response.is_error:
                    response.read()
                for event in _parse_events(self._check(response).iter_bytes()):
                    stream.add(event)
                    last_event = event.name
            if last_event != "done":
                stream.fail(self._lost_error() if last_event else self._not_recollect_error(response))
        except RecollectError as error:
            stream.fail(error)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            stream.fail(self._unreachable_error(error))
        except (httpx.HTTPError, ValueError):
            stream.fail(self._lost_error())
        finally:
            stream.end()

    def _stop(self, conversation: str) -> None:
        self._send("post", _conversation_path(conversation, "chat/stop"))

    def model(self) -> str | None:
        """Return the model that answers by default; None if the server has none."""
        return next(iter(self.models()[1:]), None)

    def models(self) -> list[str]:
        """Return the names of all models, the built-in assistant first."""
        return [str(model["id"]) for model in self._get("/v1/models", list[JsonObject], "data")]

    # Memory

    def conversation(self, conversation: str) -> Conversation:
        """Return the conversation of this name. Raise NotFound if there is none."""
        return self._get(_conversation_path(conversation), Conversation)

    def history(self, conversation: str, *, before: int | None = None, limit: int | None = None) -> list[Message]:
        """Return the newest messages, oldest first; at most MAX_PAGE_MESSAGES."""
        limit = MAX_PAGE_MESSAGES if limit is None else max(1, min(limit, MAX_PAGE_MESSAGES))
        path = _conversation_path(conversation, "messages")
        try:
            return self._get(path, list[Message], "messages", before=before, limit=limit)
        except NotFound:
            return []

    def find_message(self, conversation: str, message: str) -> Message | None:
        """Return the message with this id, or None. Its conversation is read page by page, the newest first."""
        before: int | None = None
        while page := self.history(conversation, before=before):
            for candidate in page:
                if candidate.id == message:
                    return candidate
            before = page[0].seq
        return None

    def context(
        self,
        conversation: str,
        query: str,
        *,
        system_prompt: str | None = None,
        budget: int | None = None,
        before: int | None = None,
    ) -> Context:
        """Return the prompt for a query."""
        body = {"query": query, "system_prompt": system_prompt, "budget": budget, "before": before}
        return self._read(self._send("post", _conversation_path(conversation, "context"), json=body), Context)

    def recall(self, query: str, *, conversation: str | None = None, limit: int = 10) -> Recalled:
        """Return the hits for a query, best first."""
        return self._get("/api/v1/recall", Recalled, q=query, conversation=conversation, limit=limit)

    def brief(self, conversation: str) -> Brief | None:
        """Return the newest version of the brief; None if there is none."""
        try:
            return self._get(_conversation_path(conversation, "brief"), Brief)
        except NotFound:
            return None

    def topics(self, conversation: str) -> list[Topic]:
        """Return the topics, the active one first, then by priority."""
        return self._get(_conversation_path(conversation, "topics"), list[Topic], "topics")

    def settings(self) -> Settings:
        """Return the settings that the server shows; the others have their defaults."""
        values = self._get("/api/v1/memory/settings", JsonObject, "settings")
        return Settings(**{name: value for name, value in values.items() if name in Settings.model_fields})

    def erase(self, *, conversation: str | None = None, message: str | None = None) -> Receipt:
        """Erase a conversation, or one message of it, and return the receipt."""
        if conversation is None:
            raise InvalidInput("invalid_scope", "Name the conversation.")
        rest = "" if message is None else f"messages/{quote(message, safe='')}"
        return self._read(self._send("delete", _conversation_path(conversation, rest)), Receipt)

    # Requests

    def _get(self, path: str, kind: type[T], part: str | None = None, **params: Any) -> T:
        present = {name: value for name, value in params.items() if value is not None}
        return self._read(self._send("get", path, params=present), kind, part)

    def _send(self, method: str, path: str, **content: Any) -> httpx.Response:
        import httpx

        try:
            return self._check(self._client.request(method, path, **content))
        except httpx.HTTPError as error:
            raise self._unreachable_error(error) from None

    def _read(self, response: httpx.Response, kind: type[T], part: str | None = None) -> T:
        """Return the body, or one part of it, as this type."""
        try:
            data = response.json()
            return TypeAdapter(kind).validate_python(data if part is None else data[part])
        except (ValidationError, ValueError, TypeError, KeyError):
            raise self._not_recollect_error(response) from None

    def _check(self, response: httpx.Response) -> httpx.Response:
        """Return the response if it succeeded. Otherwise raise the error that it describes."""
        if response.is_success:
            return response
        try:
            problem = response.json()
            code, detail, retryable = str(problem["code"]), str(problem["detail"]), problem.get("retryable") is True
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self._not_recollect_error(response) from None
        error_class = _ERRORS_BY_STATUS.get(response.status_code, RecollectError)
        raise error_class(code, detail, retryable=retryable)

    def _not_recollect_error(self, response: httpx.Response) -> RecollectError:
        problem = f"{self._host} does not answer as Recollect does (status {response.status_code})."
        return RecollectError("not_recollect", f"{problem} Is it the address that `recollect serve` printed?")

    def _unreachable_error(self, error: Exception) -> StoreUnavailable:
        problem = f"{self._host} cannot be reached ({type(error).__name__}). `recollect serve` starts a server."
        return StoreUnavailable("server_unreachable", problem)

    def _lost_error(self) -> StoreUnavailable:
        problem = f"The connection to {self._host} broke off during an answer."
        return StoreUnavailable("connection_lost", f"{problem} The server goes on: /history shows what is stored.")


def _conversation_path(conversation: str, rest: str = "") -> str:
    if conversation in (".", ".."):
        raise InvalidInput("invalid_conversation", "A server cannot be asked for a conversation with this name.")
    return f"/api/v1/conversations/{quote(conversation, safe='')}" + (f"/{rest}" if rest else "")


def _parse_host(url: str) -> str:
    """Return the host and port. Errors show no more of the address."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.username or parts.query or parts.fragment:
        raise InvalidInput("invalid_url", "--server is an address like http://127.0.0.1:8377.")
    return f"{host}:{port}" if port else host


def _check_key(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise InvalidInput("invalid_key", "This is not a key. `recollect keys create PERSON` makes one.")
    return key


def _parse_events(chunks: Iterable[bytes]) -> Iterator[ChatEvent]:
    """Yield server-sent events: a name and one line of JSON each. Skip comments and other fields."""
    buffer, name, data = b"", "", b""
    for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"event:"):
                name = line[6:].strip().decode("utf-8", "replace")
            elif line.startswith(b"data:"):
                data = line[5:]
            elif not line.strip() and name:
                yield ChatEvent(name, json.loads(data))
                name, data = "", b""
