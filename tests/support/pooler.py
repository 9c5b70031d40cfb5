"""A pooler for tests: pgbouncer in transaction mode, with few connections to the server that many clients share."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from support.postgres import schema_of

FETCHED = Path(sys.prefix) / "pgbouncer"  # where tools/fetch_pgbouncer.py puts it
SERVER_CONNECTIONS = 2
MAX_CLIENTS = 400
QUERY_WAIT_SECONDS = 120  # pgbouncer's own default: how long a client waits for a server connection
START_SECONDS = 60
CONNECT_QUERY = "SET synchronous_commit = local"  # so that a test sees if we change the session
_SETTINGS = """
[databases]
{database} = host={host} port={port} dbname={database} user={user}{password} connect_query='{connect_query}'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = {clients}
server_login_retry = 1
query_wait_timeout = {query_wait_seconds}
"""


def find_pgbouncer() -> tuple[str, dict[str, str]] | None:
    """Return the program and the environment it needs; None if there is none."""
    installed = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
    if installed:
        return installed, dict(os.environ)
    fetched = FETCHED / "usr/sbin/pgbouncer"
    if not fetched.exists():
        return None
    libraries = sorted({str(file.parent) for file in FETCHED.rglob("*.so.*")})
    return str(fetched), os.environ | {"LD_LIBRARY_PATH": ":".join(libraries)}


_DIRECT: dict[str, str] = {}  # the direct address by the one behind a pooler


def direct(location: str) -> str:
    """Return an address that psycopg can connect to by itself, past the pooler if there is one."""
    return _DIRECT.get(location, location)


class Pooler:
    """A running pgbouncer in front of a server."""

    def __init__(self, server: str, folder: Path, connections: int, query_wait_seconds: int) -> None:
        program = find_pgbouncer()
        assert program is not None
        self._program, self._environment = program
        self._server = conninfo_to_dict(server)
        self._folder, self._connections, self._query_wait_seconds = folder, connections, query_wait_seconds
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def database(self) -> str:
        return str(self._server["dbname"])

    def dsn(self, schema: str | None = None) -> str:
        """Return the address of the pooler, or of a schema behind it."""
        query = "" if schema is None else f"?schema={quote(schema)}"
        return f"postgresql://{self._server['user']}@127.0.0.1:{self.port}/{self.database}{query}"

    @contextmanager
    def address(self, direct: str) -> Iterator[str]:
        """Yield the address behind the pooler of a schema that has this direct one."""
        pooled = self.dsn(schema_of(direct))
        _DIRECT[pooled] = direct
        yield pooled
        del _DIRECT[pooled]

    def start(self) -> None:
        """Start pgbouncer and wait until it answers: on the port it had before, or on a free one."""
        self.port = self.port or _free_port()
        password = self._server.get("password")
        file = self._folder / "pgbouncer.ini"
        file.write_text(
            _SETTINGS.format(
                database=self.database,
                host=self._server.get("host", "127.0.0.1"),
                port=self._server.get("port", 5432),
                user=self._server["user"],
                password=f" password={password}" if password else "",
                connect_query=CONNECT_QUERY,
                listen_port=self.port,
                connections=self._connections,
                clients=MAX_CLIENTS,
                query_wait_seconds=self._query_wait_seconds,
            )
        )
        file.chmod(0o644)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "-q", *self._user_options(), str(file)], env=self._environment, stdout=log, stderr=log
            )
        self._wait()

    def _user_options(self) -> list[str]:
        """Return whom to run as. It refuses root; the owner of the server's folder may enter that."""
        if os.geteuid() != 0:
            return []
        folder = Path(self._server.get("host") or "-")
        return ["-u", folder.owner() if folder.is_dir() else "nobody"]

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with psycopg.connect(self.dsn(), connect_timeout=5, autocommit=True) as connection:
                    connection.execute("SELECT 1")
                return
            except psycopg.OperationalError as error:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    said = (self._folder / "log").read_text("utf-8", "replace")
                    raise AssertionError(f"pgbouncer does not answer: {said}") from error
                time.sleep(0.02)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let it answer nothing in the block, although connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it at once, with all connections of clients."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def running_pooler(
    server: str, *, connections: int = SERVER_CONNECTIONS, query_wait_seconds: int = QUERY_WAIT_SECONDS
) -> Iterator[Pooler]:
    """Yield a pooler in front of a server, and end it afterwards."""
    with tempfile.TemporaryDirectory(prefix="recollect-pooler-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # as root it runs under another user
        pooler = Pooler(server, folder, connections, query_wait_seconds)
        try:
            pooler.start()
            yield pooler
        finally:
            pooler.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
