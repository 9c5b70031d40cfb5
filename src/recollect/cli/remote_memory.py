"""A memory at a server, asked over HTTP. Its problems become our errors; nothing of the engine runs here."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import TypeAdapter, ValidationError

from recollect.chat.chats import Ask, Event
from recollect.cli.chat_backend import Heard
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
from recollect.core.models import Context, Conversation, JsonObject, Message, Recalled, Receipt
from recollect.core.topics import Topic
from recollect.settings import Settings

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
CONNECT: Final = 5.0  # seconds
ANSWER: Final = 60.0  # seconds of silence; in a stream a server says something every 15
MOST: Final = 1000  # messages in one page
SAID: Final = ("content", "model", "system_prompt", "budget", "memory", "history")
AGAIN: Final = ("retry", "model", "system_prompt", "budget")
_KINDS: Final = {
    401: Denied, 403: Denied, 404: NotFound, 409: Conflict, 413: InvalidInput, 422: InvalidInput,
    429: ProviderUnavailable, 502: ProviderUnavailable, 503: StoreUnavailable, 504: ProviderUnavailable,
}  # fmt: skip


class There:
    """The memory of whoever has the key."""

    def __init__(self, url: str, key: str | None = None) -> None:
        import httpx

        self._host = _host(url)
        self._client = httpx.Client(
            base_url=url.rstrip("/"),
            headers={"Authorization": f"Bearer {_checked(key)}"} if key else {},
            timeout=httpx.Timeout(ANSWER, connect=CONNECT),
            trust_env=False,  # a key goes to nobody but the server that was named
        )

    def close(self) -> None:
        self._client.close()

    # Answers

    def ask(self, ask: Ask) -> Heard:
        heard = Heard(lambda: self._stop(ask.conversation))
        threading.Thread(target=self._listen, args=(ask, heard), name="recollect-answer", daemon=True).start()
        return heard

    def _listen(self, ask: Ask, heard: Heard) -> None:
        import httpx

        wanted = AGAIN if ask.retry else SAID
        body = {name: value for name, value in ask.to_dict().items() if name in wanted}
        last = ""
        try:
            with self._client.stream("post", _path(ask.conversation, "chat"), json=body) as response:
                if response.is_error:
                    response.read()
                for event in _events(self._checked(response).iter_bytes()):
                    heard.tell(event)
                    last = event.name
            if last != "done":
                heard.fail(self._broken() if last else self._foreign(response))
        except RecollectError as error:
            heard.fail(error)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            heard.fail(self._unreachable(error))
        except (httpx.HTTPError, ValueError):
            heard.fail(self._broken())
        finally:
            heard.end()

    def _stop(self, conversation: str) -> None:
        self._send("post", _path(conversation, "chat/stop"))

    def model(self) -> str | None:
        return next(iter(self.models()[1:]), None)

    def models(self) -> list[str]:
        return [str(one["id"]) for one in self._get("/v1/models", list[JsonObject], "data")]

    # Memory

    def conversation(self, conversation: str) -> Conversation:
        return self._get(_path(conversation), Conversation)

    def history(self, conversation: str, *, before: int | None = None, limit: int | None = None) -> list[Message]:
        asked = {"before": before, "limit": MOST if limit is None else max(1, min(limit, MOST))}
        try:
            return self._get(_path(conversation, "messages"), list[Message], "messages", **asked)
        except NotFound:
            return []

    def context(
        self,
        conversation: str,
        query: str,
        *,
        system_prompt: str | None = None,
        budget: int | None = None,
        before: int | None = None,
    ) -> Context:
        asked = {"query": query, "system_prompt": system_prompt, "budget": budget, "before": before}
        return self._read(self._send("post", _path(conversation, "context"), json=asked), Context)

    def recall(self, query: str, *, conversation: str | None = None, limit: int = 10) -> Recalled:
        return self._get("/api/v1/recall", Recalled, q=query, conversation=conversation, limit=limit)

    def brief(self, conversation: str) -> Brief | None:
        try:
            return self._get(_path(conversation, "brief"), Brief)
        except NotFound:
            return None

    def topics(self, conversation: str) -> list[Topic]:
        return self._get(_path(conversation, "topics"), list[Topic], "topics")

    def settings(self) -> Settings:
        """What the server shows of them."""
        shown = self._get("/api/v1/memory/settings", JsonObject, "settings")
        return Settings(**{name: value for name, value in shown.items() if name in Settings.model_fields})

    def erase(self, *, conversation: str | None = None, message: str | None = None) -> Receipt:
        if conversation is None:
            raise InvalidInput("invalid_scope", "Name the conversation.")
        path = _path(conversation) if message is None else _path(conversation, f"messages/{quote(message, safe='')}")
        return self._read(self._send("delete", path), Receipt)

    # Requests

    def _get(self, path: str, kind: type[T], part: str | None = None, **asked: Any) -> T:
        params = {name: value for name, value in asked.items() if value is not None}
        return self._read(self._send("get", path, params=params), kind, part)

    def _send(self, method: str, path: str, **content: Any) -> httpx.Response:
        import httpx

        try:
            return self._checked(self._client.request(method, path, **content))
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    def _read(self, response: httpx.Response, kind: type[T], part: str | None = None) -> T:
        """The answer as records, or one part of it."""
        try:
            data = response.json()
            return TypeAdapter(kind).validate_python(data if part is None else data[part])
        except (ValidationError, ValueError, TypeError, KeyError):
            raise self._foreign(response) from None

    def _checked(self, response: httpx.Response) -> httpx.Response:
        """The response, unless it is a problem."""
        if response.is_success:
            return response
        try:
            told = response.json()
            code, detail, retryable = str(told["code"]), str(told["detail"]), told.get("retryable") is True
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self._foreign(response) from None
        kind = _KINDS.get(response.status_code, RecollectError)
        raise kind(code, detail, retryable=retryable)

    def _foreign(self, response: httpx.Response) -> RecollectError:
        told = f"{self._host} does not answer as Recollect does (status {response.status_code})."
        return RecollectError("not_recollect", f"{told} Is it the address that `recollect serve` printed?")

    def _unreachable(self, error: Exception) -> StoreUnavailable:
        told = f"{self._host} cannot be reached ({type(error).__name__}). `recollect serve` starts a server."
        return StoreUnavailable("server_unreachable", told)

    def _broken(self) -> StoreUnavailable:
        told = f"{self._host} went away in the middle of an answer. It goes on there: /history shows what is stored."
        return StoreUnavailable("connection_lost", told)


def _path(conversation: str, rest: str = "") -> str:
    if conversation in (".", ".."):
        raise InvalidInput("invalid_conversation", "A server cannot be asked for a conversation with this name.")
    return f"/api/v1/conversations/{quote(conversation, safe='')}" + (f"/{rest}" if rest else "")


def _host(url: str) -> str:
    """The host and port, which is all of the address that errors show."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.username or parts.query or parts.fragment:
        raise InvalidInput("invalid_url", "--server is an address like http://127.0.0.1:8377.")
    return f"{host}:{port}" if port else host


def _checked(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise InvalidInput("invalid_key", "This is no key: `recollect keys create PERSON` makes one.")
    return key


def _events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """Server-sent events: a name and a line of JSON each. Comments and what else there is are passed over."""
    buffer, name, data = b"", "", b""
    for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"event:"):
                name = line[6:].strip().decode("utf-8", "replace")
            elif line.startswith(b"data:"):
                data = line[5:]
            elif not line.strip() and name:
                yield Event(name, json.loads(data))
                name, data = "", b""
