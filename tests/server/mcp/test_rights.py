"""An agent has the rights of its person where it reads, and its own branch where it writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client
from tests.server.mcp.agents import Agent, Refused, in_process, play

import livingdb
from livingdb.server.mcp.server import agent_server
from livingdb.server.mcp.session import AgentSession

CHANGE: dict[str, Any] = {
    "statements": ["UPDATE customers SET name = 'Secret' WHERE id = 1"],
    "message": "secret",
}


@pytest.fixture
def people(db: livingdb.Database) -> livingdb.Database:
    db.branch("main").clone("hidden").sql("UPDATE customers SET name = 'canary' WHERE id = 1")
    db.people.add("ann", role="reader", branches="main")
    db.people.grant("ann", role="writer", branches="agent/*")
    db.people.add("bob", role="maintainer", branches="main")
    return db


def of_person(db: livingdb.Database, person: str, session: str = "one") -> Client:
    return Client(agent_server(AgentSession(db, "tidy", session, person=person)))


def test_it_reads_what_its_person_may_read(people: livingdb.Database) -> None:
    async def story() -> None:
        async with of_person(people, "ann") as client:
            agent = Agent(client)
            assert (await agent("list_branches"))["branches"] == ["main"]
            assert (await agent("query", sql="SELECT count(*) AS n FROM orders"))["rows"] == [[40]]
            for sql in ("SELECT * FROM hidden.customers", "SELECT * FROM totals"):
                with pytest.raises(Refused, match=r"\[not_found\]"):
                    await agent("query", sql=sql)
            with pytest.raises(Refused, match=r"\[not_found\]"):
                await agent("diff", before="main", after="hidden")
            done = await agent("change", **CHANGE)
            assert people.at(done["snapshot"]).author == "tidy (for ann)"
            with pytest.raises(Refused, match=r"\[forbidden\] .*maintainer"):
                statement = "ALTER TABLE orders ADD COLUMN note string"
                await agent("change", statements=[statement], message="note")
            assert (await agent("status"))["you"] == "tidy (for ann)"
            asked = await agent("request_merge", title="t", description="d")
            assert (asked["author"], asked["target"]) == ("tidy (for ann)", "main")
            people.people.withdraw("ann", role="writer", branches="agent/*")
            assert "your_branch" not in await agent("status")
            with pytest.raises(Refused, match=r"\[forbidden\]"):
                await agent("change", **CHANGE)

    play(story)


def test_it_writes_no_branch_of_its_person(people: livingdb.Database) -> None:
    """Bob maintains main, and has no right to branches of agents: his agent only reads."""
    head = people.branch("main").head

    async def story() -> None:
        async with of_person(people, "bob") as client:
            agent = Agent(client)
            assert (await agent("query", sql="SELECT count(*) AS n FROM orders"))["rows"] == [[40]]
            with pytest.raises(Refused, match=r"\[forbidden\] .*make the branch 'agent/one'"):
                await agent("change", **CHANGE)

    play(story)
    assert people.branch("main").head == head
    with pytest.raises(livingdb.NotFound, match="no user 'eve'"):
        AgentSession(people, person="eve")


def test_every_call_is_in_the_audit_trail_without_values(db: livingdb.Database) -> None:
    async def story() -> None:
        async with in_process(db) as agent:
            await agent("query", sql="SELECT 'Secret' AS x", ref="main")
            await agent("change", **CHANGE)
            rows = [{"id": 3, "name": "Secret, too"}]
            await agent(
                "change_rows", table="customers", operation="insert", rows=rows, message="secret"
            )
            with pytest.raises(Refused):
                await agent("change", statements=["MERGE BRANCH main INTO x"], message="m")
            with pytest.raises(Refused):
                await agent("row_history", table="customers", key="Secret")

    play(story)
    noted = [row for row in db.people.audit().to_pylist() if row["action"].startswith("mcp ")]
    assert [(row["action"], row["outcome"]) for row in reversed(noted)] == [
        ("mcp query", "done"),
        ("mcp change", "done"),
        ("mcp change_rows", "done"),
        ("mcp change", "refused"),
        ("mcp row_history", "failed"),
    ]
    assert {(row["person"], row["subject"]) for row in noted} == {("tidy", "agent/one")}
    assert json.loads(noted[1]["details"]) == {"statements": 1, "error": "forbidden"}
    assert json.loads(noted[2]["details"]) == {
        "table": "customers",
        "operation": "insert",
        "rows": 1,
    }
    assert "Secret" not in str(noted)


def test_a_database_that_is_only_read(agents_shop) -> None:  # type: ignore[no-untyped-def]
    async def story(db: livingdb.Database) -> None:
        async with in_process(db) as agent:
            assert (await agent("query", sql="SELECT count(*) AS n FROM orders"))["rows"] == [[40]]
            with pytest.raises(Refused, match=r"\[forbidden\]"):
                await agent("change", **CHANGE)

    with livingdb.open(agents_shop, read_only=True, engine="embedded") as db:
        play(lambda: story(db))
