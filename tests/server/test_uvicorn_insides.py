"""The insides of uvicorn on which `server/connections.py` builds. After an upgrade, these tests name what is gone."""

from __future__ import annotations

import ast
import asyncio
import inspect
import socket
import tomllib
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from recollect.server import connections
from recollect.server.connections import BoundedProtocol

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
OVERRIDDEN = {
    "__init__", "connection_made", "connection_lost", "pause_writing", "resume_writing", "data_received",
    "on_message_begin", "on_url", "on_header", "on_headers_complete", "on_message_complete", "on_response_complete",
}  # fmt: skip
USED = {
    "protocol": {
        "_start_asgi_task", "client", "cycle", "flow", "loop", "parser", "pipeline", "scope", "server_state",
        "transport",
    },
    "cycle": {
        "disconnected", "keep_alive", "message_event", "response_complete", "response_started", "transport",
    },
    "flow": {"resume_reading"},
    "server_state": {"default_headers", "total_requests"},
}  # fmt: skip


def _names_in_source() -> tuple[set[str], dict[str, set[str]]]:
    """Return the methods that `BoundedProtocol` overrides, and what it uses of uvicorn's objects, by their names."""
    tree = ast.parse(inspect.getsource(connections))
    (protocol,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "BoundedProtocol"]
    own = {node.name for node in protocol.body if isinstance(node, ast.FunctionDef)}
    attributes = [node for node in ast.walk(protocol) if isinstance(node, ast.Attribute)]
    of_self = [node for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "self"]
    own |= {node.attr for node in of_self if isinstance(node.ctx, ast.Store)}
    used = {"protocol": {node.attr for node in of_self} - own, "cycle": set(), "flow": set(), "server_state": set()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = getattr(node.value, "attr", None) or getattr(node.value, "id", "")
            used.get(owner, set()).add(node.attr)
    return {name for name in own if hasattr(HttpToolsProtocol, name)}, used


def test_all_that_is_used_of_uvicorn_is_listed_here() -> None:
    overridden, used = _names_in_source()
    assert overridden == OVERRIDDEN
    assert used == USED


def test_uvicorn_has_all_that_our_protocol_builds_on() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    async def find_missing() -> list[str]:
        config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None)
        protocol: Any = HttpToolsProtocol(config, ServerState(), {"here": "it is"})
        ours, theirs = socket.socketpair()
        with ours, theirs:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, theirs)
            protocol.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            owners = {"protocol": protocol} | {
                name: getattr(protocol, name, None) for name in USED if name != "protocol"
            }
            missing = [f"{owner}.{name}" for owner in USED for name in USED[owner] if not hasattr(owners[owner], name)]
            if "here" not in protocol.scope.get("state", {}):
                missing.append("scope['state'], with the state of the application")
            transport.close()
            await asyncio.sleep(0)
        return missing + [f"protocol.{name}()" for name in OVERRIDDEN if name not in vars(HttpToolsProtocol)]

    missing = asyncio.run(find_missing())
    assert not missing, f"uvicorn {uvicorn.__version__} lacks what server/connections.py uses: {', '.join(missing)}"
    assert issubclass(BoundedProtocol, HttpToolsProtocol)


def test_the_next_major_version_of_uvicorn_is_not_installed_unseen() -> None:
    extras = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    (requirement,) = [line for line in extras["server"] if line.startswith("uvicorn")]
    assert requirement.endswith(",<1"), requirement
