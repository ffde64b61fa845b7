"""Whole sessions: an agent works, people decide; over the streams of a child, as clients do it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from tests.clock import stopped
from tests.server.mcp.agents import Refused, child, in_process, play

import livingdb
from livingdb import Retention

CAPITALS = "UPDATE customers SET name = upper(name) WHERE id = 1"


def test_an_agent_works_and_a_person_merges(shop: Path) -> None:
    async def work() -> None:
        async with child(shop, "--agent", "tidy", "--session", "names") as agent:
            assert len((await agent.client.list_tools()).tools) > 15
            assert (await agent("query", sql="SELECT count(*) AS n FROM orders"))["rows"] == [[40]]
            begun = await agent("start_work", task="capitals")
            assert (begun["branch"], begun["source"]) == ("agent/names", "main")
            await agent("change", statements=[CAPITALS], message="capitals")
            row = {"id": 90, "city": "Rome", "amount": "2.50", "day": "2026-11-16", "customer": 1}
            await agent(
                "change_rows", table="orders", operation="insert", rows=[row], message="Rome"
            )
            await agent("change", statements=["DELETE FROM orders"], message="a mistake")
            await agent("undo", message="that was a mistake")
            await agent("change", statements=["ALTER TABLE orders ADD COLUMN note string"],
                        message="room for notes")  # fmt: skip
            changed = await agent("diff")
            assert changed["schema_changes"] == ["AddColumn orders note"]
            assert changed["tables"]["customers"] == {"inserted": 0, "updated": 1, "deleted": 0}
            (order,) = (await agent("diff", table="orders"))["rows"]
            assert order[1] == "insert"
            assert order[3]["day"] == "2026-11-16"
            preview = await agent("preview_merge")
            assert (preview["into"], preview["is_clean"]) == ("main", True)
            asked = await agent("request_merge", title="Capitals", description="and Rome")
            assert (asked["number"], asked["in_the_way"]) == (1, ["1 more approval is needed"])

    with livingdb.open(shop, author="ann") as db:
        db.set_merge_rule("main", approvals=1)
    play(work)
    with livingdb.open(shop, author="ann") as db:
        request = db.merge_request(1)
        assert (request.author, request.title, request.source) == (
            "tidy",
            "Capitals",
            "agent/names",
        )
        request.comment("why Rome?")

    async def answer() -> None:
        async with child(shop, "--agent", "tidy", "--session", "names") as agent:
            (note,) = (await agent("merge_requests", number=1))["notes"]
            assert (note["author"], note["text"]) == ("ann", "why Rome?")
            await agent("comment_merge_request", number=1, text="it was asked for")
            assert (await agent("status"))["your_branch"] == "agent/names"

    play(answer)
    with livingdb.open(shop, author="ann") as db:
        db.merge_request(1).approve(by="ann")
        db.merge_request(1).merge(by="ann")
        main = db.branch("main")
        assert main.head.author == "ann"
        assert main.table("customers").get(1) == {"id": 1, "name": "KARI"}
        assert len(main.table("orders")) == 41
        blamed = db.blame("main", "customers", key=1).to_pylist()
        assert [(row["author"], row["message"]) for row in blamed] == [("tidy", "capitals")]
        assert db.check().problems == []


@pytest.mark.slow
def test_two_sessions_at_once(shop: Path) -> None:
    """Each has a branch of its own; the second sees what the first changed once it is merged."""

    async def story() -> None:
        async with child(shop, "--agent", "a") as one, child(shop, "--agent", "b") as other:
            async with anyio.create_task_group() as both:
                for agent, city in ((one, "Rome"), (other, "Paris")):
                    sql = f"UPDATE orders SET city = '{city}' WHERE id = 1"
                    both.start_soon(_change, agent, sql)
            names = {(await agent("status"))["your_branch"] for agent in (one, other)}
            assert len(names) == 2
            assert names < {*(await one("list_branches"))["branches"]}
            mine = "SELECT city FROM orders WHERE id = 1"
            assert (await one("query", sql=mine))["rows"] == [["Rome"]]
            assert (await other("query", sql=mine))["rows"] == [["Paris"]]
            assert (await other("query", sql=mine, ref="main"))["rows"] == [["Bodø"]]
            with livingdb.open(shop, author="ann") as db:
                db.merge((await one("status"))["your_branch"], into="main")
            seen = await other("preview_merge")
            assert not seen["is_clean"]
            assert seen["conflicts"]["orders"]["rows"][0][0] == 1
            with pytest.raises(Refused, match=r"\[merge_conflict\] .*\n?.*catch_up"):
                await other("catch_up")
            await other("catch_up", on_conflict="ours")
            assert (await other("preview_merge"))["is_clean"]

    play(story)


async def _change(agent, sql: str) -> None:  # type: ignore[no-untyped-def]
    await agent("change", statements=[sql], message="moved")


def test_a_session_that_was_begun_by_another_agent(db: livingdb.Database) -> None:
    async def story() -> None:
        async with in_process(db, "names", "tidy") as agent:
            await agent("start_work", task="names")
        async with in_process(db, "names", "other") as agent:
            for tool in ("start_work", "status"):
                arguments = {"task": "mine"} if tool == "start_work" else {}
                with pytest.raises(Refused, match=r"\[forbidden\] .*made by 'tidy'"):
                    await agent(tool, **arguments)

    play(story)


def test_killed_in_the_middle_of_a_change(shop: Path, tmp_path: Path) -> None:
    """Whenever it is killed, its branch has all of a change or nothing, and work goes on."""
    pid = tmp_path / "pid"
    command = ["/bin/sh", "-c", f'echo $$ > {pid}; exec "$@"', "sh"]
    large = (
        "INSERT INTO orders (id, city) SELECT 1000 + a.id * 64000 + b.id * 1600 + c.id * 40 + d.id,"
        " 'Rome' FROM orders a, orders b, orders c, orders d WHERE a.id < 8"
    )

    async def story() -> None:
        async with child(shop, "--session", "killed", command=command) as agent:
            await agent("change", statements=[CAPITALS], message="capitals")
            async with anyio.create_task_group() as both:
                both.start_soon(_fall, agent, large)
                await anyio.sleep(0.3)
                os.kill(int(pid.read_text()), signal.SIGKILL)

    play(story)
    with livingdb.open(shop) as db:
        assert db.check().problems == []
        work = db.branch("agent/killed")
        assert work.table("customers").get(1) == {"id": 1, "name": "KARI"}
        assert len(work.table("orders")) in (40, 40 + 8 * 40**3)
        assert len(db.branch("main").table("orders")) == 40

    async def go_on() -> None:
        async with child(shop, "--session", "killed") as agent:
            assert (await agent("diff", table="customers"))["tables"]["customers"]["updated"] == 1

    play(go_on)


async def _fall(agent, sql: str) -> None:  # type: ignore[no-untyped-def]
    with suppress(MCPError):  # it was killed before it could answer, or just after
        await agent("change", statements=[sql], message="large")


def test_branches_of_agents_are_collected(shop: Path) -> None:
    """A rule of retention for `agent/*` drops those that nobody wrote to for two days."""

    async def work(db: livingdb.Database, session: str) -> None:
        async with in_process(db, session) as agent:
            await agent("change", statements=[CAPITALS], message="capitals")

    policy = Retention(branches={"agent/*": Retention(days=2, drop_idle=True)})
    with livingdb.open(shop, engine="embedded") as db:
        newest = max(snapshot.time for snapshot in db.snapshots())
        with stopped(newest) as clock:
            clock.go_on()
            play(lambda: work(db, "old"))
            clock.go_on(86_400 * 3)
            play(lambda: work(db, "new"))
            db.collect_garbage(policy)
        assert [branch.name for branch in db.branches()] == ["agent/new", "main", "totals"]
