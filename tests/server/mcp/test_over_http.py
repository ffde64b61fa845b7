"""Agents over HTTP, by the protocol's own client: tokens, branches, limits and the trail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.server.mcp.agents import Agent, Refused, play

import livingdb
from livingdb.server.serve import Server
from livingdb.server.settings import Limits, ServerSettings

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}
ENDLESS = "SELECT count(*) AS n FROM range(1000000) a, range(1000000) b WHERE a.id * b.id % 7 = 3"


class ServedAgents:
    """A served shop, and the tokens of its people."""

    def __init__(self, db: livingdb.Database, **limits: Any):
        db.people.add("ann", "owner")
        db.people.add("ben", "reader", "main")
        db.people.grant("ben", "maintainer", "agent/*")
        self.db = db
        self.tokens = {name: db.people.issue_token(name) for name in ("ann", "ben")}
        settings = ServerSettings(port=0, upkeep=False, limits=replace(Limits(), **limits))
        self.server = Server(db, settings)

    @asynccontextmanager
    async def agent(self, person: str, session: str, agent: str = "tidy") -> AsyncIterator[Agent]:
        known = {"Authorization": f"Bearer {self.tokens[person]}"}
        url = f"{self.server.address}/mcp/{session}?agent={agent}"
        async with (
            httpx.AsyncClient(headers=known, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            yield Agent(client)

    def post(self, path: str = "/mcp/one", person: str | None = "ben", **headers: str) -> Any:
        known = {} if person is None else {"Authorization": f"Bearer {self.tokens[person]}"}
        return httpx.post(
            self.server.address + path,
            json=INITIALIZE,
            headers={**ACCEPT, **known, **headers},
            timeout=60,
        )


@pytest.fixture
def served(db: livingdb.Database) -> Iterator[ServedAgents]:
    made = ServedAgents(db, seconds=2.0)
    with made.server:
        yield made


def test_sessions_have_branches_of_their_own(served: ServedAgents) -> None:
    main = served.db.branch("main").head.id

    async def story() -> None:
        async with served.agent("ben", "one") as one, served.agent("ben", "two") as two:
            for agent, city in ((one, "Rome"), (two, "Bonn")):
                rows = [{"id": 1, "city": city}]
                await agent(
                    "change_rows", table="orders", operation="update", rows=rows, message=city
                )
            told = await one("query", sql="SELECT city FROM orders WHERE id = 1")
            assert told["rows"] == [["Rome"]]
        async with served.agent("ben", "one") as again:
            told = await again("query", sql="SELECT city FROM orders WHERE id = 1")
            assert told["rows"] == [["Rome"]]
        async with served.agent("ann", "one") as other:
            with pytest.raises(Refused, match=r"\[forbidden\] .*begin another session"):
                await other("change", statements=["DELETE FROM orders"], message="m")

    play(story)
    assert served.db.branch("main").head.id == main
    assert served.db.branch("agent/one").table("orders").get(1)["city"] == "Rome"  # type: ignore[index]
    assert served.db.branch("agent/two").table("orders").get(1)["city"] == "Bonn"  # type: ignore[index]
    assert served.db.branch("agent/one").head.author == "tidy (for ben)"
    noted = served.db.people.audit().to_pylist()
    mine = [one for one in noted if one["action"] == "mcp change_rows"]
    assert {(one["person"], one["subject"]) for one in mine} == {
        ("tidy (for ben)", "agent/one"),
        ("tidy (for ben)", "agent/two"),
    }


def test_it_reads_what_its_person_may_read_until_the_token_is_revoked(
    served: ServedAgents,
) -> None:
    served.db.branch("main").clone("hidden")

    async def story() -> None:
        async with served.agent("ben", "one") as agent:
            with pytest.raises(Refused, match=r"\[not_found\]"):
                await agent("query", sql="SELECT id FROM orders", ref="hidden")
            assert "hidden" not in await agent.text("list_branches")
            with pytest.raises(Refused, match=r"\[limit_exceeded\] .*longer than the 2 s"):
                await agent("query", sql=ENDLESS)

    play(story)
    assert served.post().status_code == 200
    (token,) = served.db.people.tokens("ben")
    served.db.people.revoke(token.id)
    assert served.post().status_code == 401


def test_who_does_not_come_in(served: ServedAgents) -> None:
    assert served.post(person=None).status_code == 401
    assert served.post(Authorization="Bearer ldb_no_such").status_code == 401
    assert served.post(Host="rebound.example").status_code == 421
    assert served.post(Origin="https://evil.example").status_code == 403
    for path, status in (
        ("/mcp", 404),
        ("/mcp/", 404),
        ("/mcp/one/two", 422),
        ("/mcp/.hidden", 422),
        ("/mcp/one?agent=a%20b", 422),
        ("/mcp/one?who=ann", 422),
    ):
        answer = served.post(path)
        assert (answer.status_code, set(answer.json())) == (status, {"code", "message", "details"})
    assert served.post().json()["result"]["serverInfo"]["name"] == "livingdb"
    assert served.db.branches() == ["main", "totals"]


def test_nothing_is_kept_open_for_an_agent(served: ServedAgents) -> None:
    known = {"Authorization": f"Bearer {served.tokens['ben']}", "Accept": "text/event-stream"}
    for method in ("GET", "DELETE", "PUT"):
        url = served.server.address + "/mcp/one"
        answer = httpx.request(method, url, headers=known, timeout=20)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST"), method
        assert answer.json()["code"] == "method_not_allowed"
