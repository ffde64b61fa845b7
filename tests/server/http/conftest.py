"""A server over one small database, which the tests of a file share; and clients of people."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

import livingdb
from livingdb.server.serve import Server
from livingdb.server.settings import Limits, ServerSettings

ARROW = "application/vnd.apache.arrow.stream"
PEOPLE = {"olga": ("owner", "*"), "will": ("writer", "dev/*"), "rita": ("reader", "main")}
COLUMNS = {
    "id": "bigint",
    "city": "string",
    "amount": "decimal(10,2)",
    "share": "double",
    "day": "date",
    "time": "timestamp",
    "moment": "timestamp_ntz",
    "data": "binary",
    "tags": "array<string>",
    "place": "struct<x:int,y:bigint>",
    "counts": "map<string,bigint>",
    "is_new": "boolean",
}


class Served:
    """A running server, and who may ask it."""

    def __init__(self, server: Server, tokens: dict[str, str]):
        self.server = server
        self.db = server.db
        self.tokens = tokens
        self._clients: list[httpx.Client] = []

    def client(self, name: str | None = "olga", **headers: str) -> httpx.Client:
        """Somebody who asks; nobody, if there is no name."""
        known = {} if name is None else {"Authorization": f"Bearer {self.tokens[name]}"}
        made = httpx.Client(
            base_url=self.server.address, headers={**known, **headers}, timeout=60.0
        )
        self._clients.append(made)
        return made

    def wait(self, client: httpx.Client, answer: httpx.Response) -> dict[str, Any]:
        """A job, once it has ended."""
        assert answer.status_code == 202, answer.text
        for _ in range(2000):
            job: dict[str, Any] = client.get(f"/v1/jobs/{answer.json()['id']}").json()
            if job["state"] in ("done", "failed", "cancelled"):
                return job
            time.sleep(0.01)
        raise AssertionError("the job does not end")

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.server.stop()


def make_shop(folder: Path, url: str | None = None) -> livingdb.Database:
    db = livingdb.create(url or folder / "shop.ldb", author="root", engine="embedded")
    main = db.branch("main")
    main.create_table("orders", COLUMNS, key="id")
    main.insert("orders", {"id": list(range(100)), "city": ["Oslo", "Rome"] * 50})
    main.clone("dev/one")
    return db


def serve(db: livingdb.Database, people: bool = True, **given: Any) -> Served:
    """Serve a database; its people have tokens."""
    tokens = {}
    for name, (role, branches) in PEOPLE.items() if people else ():
        if name not in {user.name for user in db.people.list()}:
            db.people.add(name, role=role, branches=branches)
        tokens[name] = db.people.issue_token(name)
    limits = replace(Limits(), **given.pop("limits", {}))
    server = Server(db, ServerSettings(port=0, upkeep=False, limits=limits, **given))
    server.start()
    if server.run_token is not None:
        tokens["olga"] = server.run_token
    return Served(server, tokens)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with make_shop(tmp_path_factory.mktemp("served")) as db:
        made = serve(db)
        yield made
        made.close()


@pytest.fixture
def olga(served: Served) -> httpx.Client:
    """An owner."""
    return served.client("olga")


@pytest.fixture
def serve_shop(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Serve a database of one's own, with settings of one's own."""
    running: list[Served] = []

    def start(people: bool = True, **given: Any) -> Served:
        running.append(serve(make_shop(tmp_path), people, **given))
        return running[-1]

    yield start
    for one in running:
        one.close()
        one.db.close()
