"""A database whose alerts go somewhere, and a web server that takes them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.unit.alerts import receivers

import livingdb
from livingdb import alert
from livingdb.alerts.raise_alert import raise_alert
from livingdb.graph.graph import now

TRUST = ["tests.unit.alerts.receivers", "command:*", "env:LIVINGDB_TEST_*", "webhook:127.0.0.1"]


@dataclass
class Request:
    """One that came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Receiver:
    """A web server on loopback: `answers` are its next statuses, after which it says 200."""

    port: int = 0
    answers: list[int] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    is_hanging: bool = False
    arrived: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/secret?token=hush"

    def sink(self, **given: Any) -> alert.Webhook:
        return alert.webhook(self.url, **given)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found.requests.append(Request(self.path, dict(self.headers), body))
            found.arrived.set()
            if found.is_hanging:
                found.go_on.wait(120)
            status = found.answers.pop(0) if found.answers else 200
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "file:///etc/passwd")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield found
    found.go_on.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    receivers.forget()
    path = tmp_path / "shop.ldb"
    with livingdb.create(path, author="ann", engine="embedded", trust=TRUST) as database:
        yield database


Tell = Callable[..., int]


@pytest.fixture
def tell(db: livingdb.Database) -> Tell:
    """Raises an alert, as a sync does."""

    def act(event: str = "detached", severity: str = "error", **given: Any) -> int:
        graph = db._graph
        given = {"about": "main/v", "message": "it broke", "time": now(), **given}
        with graph.catalog.write() as connection:
            return raise_alert(graph, connection, event=event, severity=severity, **given)

    return act


@pytest.fixture
def quiet(db: livingdb.Database) -> livingdb.Database:
    """The database without a thread that sends: only `deliver_alerts` does."""
    db._graph.on_alert = None
    return db
