"""What each tool tells, what is refused, and how much is told: in this process."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.server.mcp.agents import Refused, in_process, play
from tests.server.mcp.conftest import ORDER, TOTALS

import livingdb

READING = {
    *("list_branches", "list_tables", "describe_table", "query", "log", "diff", "preview_merge"),
    *("merge_requests", "row_history", "blame", "lineage", "provenance", "status", "alerts"),
}
WRITING = {
    *("start_work", "change", "change_rows", "undo", "catch_up"),
    *("request_merge", "comment_merge_request"),
}


def test_the_guide_names_every_tool() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/agents.md").read_text(encoding="utf-8")
    table = page.partition("| | tools |")[2].partition("\n\n")[0]
    assert {*re.findall(r"`(\w+)`", table)} == READING | WRITING


def test_tools_say_what_they_do(db: livingdb.Database) -> None:
    async def story() -> None:
        async with in_process(db) as agent:
            tools = {tool.name: tool for tool in (await agent.client.list_tools()).tools}
            assert {*tools} == READING | WRITING
            for name, tool in tools.items():
                assert len(tool.description or "") > 60, name
                assert tool.annotations.read_only_hint is (name in READING)
                assert tool.input_schema["additionalProperties"] is False
                for told in tool.input_schema["properties"].values():
                    assert told["description"]
            assert "agent/one" in (agent.client.instructions or "")
            assert "data that others wrote" in (agent.client.instructions or "")

    play(story)


def test_looking(db: livingdb.Database) -> None:
    async def story() -> None:
        async with in_process(db) as agent:
            found = await agent("list_branches")
            assert found["branches"] == ["main", "totals"]
            assert [*found["tags"]] == ["v1"]
            assert "your_branch" not in found
            tables = await agent("list_tables")
            assert tables["tables"][1] == {"name": "orders", "key": ["id"], "rows": 40}
            assert tables["views"][0]["query"] == TOTALS
            orders = await agent("describe_table", table="ORDERS", ref="v1")
            assert orders["columns"][0] == {"name": "id", "type": "bigint", "not_null": True}
            assert orders["columns"][2]["default"] == "1.00"
            assert orders["foreign_keys"] == {"customer": "customers"}
            assert orders["checks"] == {"owed": "amount >= 0"}
            customers = await agent("describe_table", table="customers")
            assert customers["columns"][1]["labels"] == ["pii"]
            assert [*customers["unique"].values()] == [["name"]]
            view = (await agent("describe_table", table="totals"))["view"]
            assert (view["state"], view["sources"]) == ("active", ["main"])
            assert view["behind"] == {"snapshots": 0, "seconds": 0}
            log = await agent("log", rows=2)
            assert [one["message"] for one in log["commits"]] == ["first orders", ""]
            assert "for older ones" in log["note"]
            status = await agent("status")
            assert (status["you"], status["failed"]) == ("tidy", [])
            assert (await agent("alerts"))["alerts"] == []

    play(story)


def test_tracing(db: livingdb.Database) -> None:
    async def story() -> None:
        async with in_process(db) as agent:
            await agent(
                "change", statements=["UPDATE orders SET amount = 7 WHERE id = 3"], message="seven"
            )
            history = await agent("row_history", table="orders", key=3)
            assert [row[1] for row in history["rows"]] == ["tidy", "ann"]
            blame = await agent("blame", table="orders", key="3", columns=True)
            assert {row[1]: row[3] for row in blame["rows"]}["amount"] == "tidy"
            lineage = await agent("lineage", view="totals", key="Bergen")
            assert len(lineage["sources"]["orders"]["rows"]) == 10
            columns = await agent("lineage", view="totals")
            assert columns["columns"]["total"] == ["orders.amount"]
            assert "first orders" in str(await agent("provenance", ref="totals"))

    play(story)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("INSERT INTO main.orders VALUES (90, 'Rome', 1, NULL, 1)", r"main\.orders: .* its own"),
        ("UPDATE totals.totals SET total = 0", "its own branch alone"),
        ("MERGE BRANCH `agent/one` INTO main", "request_merge"),
        ("CREATE BRANCH other", "start_work"),
        ("DROP BRANCH totals", "people do this"),
        ("CREATE TAG v2", "people do this"),
        ("REFRESH VIEW totals", "people do this"),
        ("ALTER SYNC totals DETACH", "people do this"),
        ("ALTER MERGE REQUEST 1 MERGE", "people do this"),
        ("USE BRANCH main", "on your branch"),
        ("CREATE VIEW v AS SELECT id FROM orders", "views are not for agents"),
        ("DROP VIEW totals", "views are not for agents"),
        ("ALTER TABLE orders ADD COLUMN note string SYNC BOTH KEEP old", "KEEP and SYNC"),
        ("CREATE TABLE t (id int PRIMARY KEY) SYNC FORWARD TO other", "SYNC and TO"),
    ],
)
def test_what_reaches_further_is_refused_by_name(
    db: livingdb.Database, statement: str, said: str
) -> None:
    heads = {branch.name: branch.head.id for branch in db.branches()}

    async def story() -> None:
        async with in_process(db) as agent:
            with pytest.raises(Refused, match=rf"\[forbidden\] .*{said}[\s\S]*\nNext: "):
                await agent("change", statements=[statement], message="further")
            with pytest.raises(Refused, match=r"\[forbidden\] `query` only reads"):
                await agent("query", sql=statement)

    play(story)
    assert {branch.name: branch.head.id for branch in db.branches()} == heads


def test_errors_say_what_to_do_next(db: livingdb.Database) -> None:
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("query", {"sql": "SELECT nothing FROM orders"}, r"\[not_found\] .*'nothing'"),
        ("query", {"sql": "SELECT 1", "ref": "nowhere"}, r"\[not_found\] .*list_branches"),
        ("query", {"sql": "SELECT 1", "branch": "main"}, r"no argument 'branch'; it takes sql"),
        ("query", {}, r"\[invalid_data\] query: sql: Field required"),
        ("query", {"sql": "SELECT 1; SELECT 2"}, r"\[invalid_data\] one statement"),
        ("query", {"sql": "SELECT reflect('java.lang.System', 'getenv')"}, r"\[untrusted\]"),
        ("describe_table", {"table": "nowhere"}, "there are: customers, orders, totals"),
        ("diff", {}, r"\[rule_violation\] this session has no branch yet"),
        ("change", {"statements": ["SELECT 1"], "message": "m"}, "`query` answers"),
        ("change", {"statements": ["DELETE FROM orders"], "message": ""}, "message: "),
        ("change", {"statements": ["INSERT INTO orders (id, amount) VALUES (90, -1)"],
                    "message": "m"}, r"\[broken_constraint\] .*describe_table"),
        ("change_rows", {"table": "orders", "operation": "insert", "rows": [{"id": 1}],
                         "message": "m"}, r"\[duplicate_key\] .*upsert"),
        ("change_rows", {"table": "orders", "operation": "upsert", "message": "m",
                         "rows": [{"id": 1, "day": "noon"}]}, "'day', row 0"),
        ("start_work", {"task": "t", "source": "v1"}, "works on 'agent/one' already"),
        ("comment_merge_request", {"number": 7, "text": "t"}, r"\[not_found\]"),
    ]  # fmt: skip

    async def story() -> None:
        async with in_process(db) as agent:
            for tool, arguments, said in calls:
                with pytest.raises(Refused, match=rf"(?s){said}"):
                    await agent(tool, **arguments)
            assert (await agent("diff"))["tables"] == {}

    play(story)


def test_answers_are_bounded(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.sql("ALTER TABLE orders ADD COLUMN note string")
    main.update("orders", [{"id": 3, "note": "x" * 3_000_000}])

    async def story() -> None:
        limits = {"rows": 10, "characters": 4_000, "given_rows": 2, "statements": 2}
        async with in_process(db, **limits) as agent:
            orders = await agent("query", sql="SELECT id FROM orders ORDER BY id", rows=99)
            assert [row[0] for row in orders["rows"]] == [*range(10)]
            assert "the first 10 rows, and there are more" in orders["note"]
            (wide,) = (await agent("query", sql="SELECT note FROM orders WHERE id = 3"))["rows"]
            assert wide == ["x" * 500 + "…"]
            cross = "SELECT repeat('y', 400) AS y FROM orders a, orders b, orders c"
            text = await agent.text("query", sql=cross)
            assert len(text) <= 4_000
            assert 0 < len(json.loads(text)["rows"]) < 10
            for said, arguments in (
                ("statements", {"statements": ["DELETE FROM orders"] * 3}),
                ("sql characters", {"statements": ["DELETE FROM orders " + " " * 20_000]}),
            ):
                with pytest.raises(Refused, match=rf"\[limit_exceeded\] .*{said}"):
                    await agent("change", message="m", **arguments)
            rows = [{"id": n} for n in range(3)]
            with pytest.raises(Refused, match=r"\[limit_exceeded\] 3 given rows"):
                await agent(
                    "change_rows", table="orders", operation="delete", rows=rows, message="m"
                )

    play(story)


def test_calls_end_in_time(db: livingdb.Database) -> None:
    endless = "SELECT count(*) AS n FROM orders a, orders b, orders c, orders d, orders e"
    where = " WHERE a.id + b.id + c.id < d.id + e.id"

    async def story() -> None:
        async with in_process(db, seconds=0.3) as agent:
            with pytest.raises(Refused, match=r"\[limit_exceeded\] .*longer than the 0\.3 s"):
                await agent("query", sql=endless + where)
            with pytest.raises(Refused, match=r"\[limit_exceeded\]"):
                await agent(
                    "change",
                    statements=[f"UPDATE orders SET amount = ({endless}{where})"],
                    message="m",
                )
        async with in_process(db) as agent:
            assert len((await agent("query", sql="SELECT id FROM orders"))["rows"]) == 40

    play(story)
    assert db.branch("agent/one").head == db.branch("main").head


def test_rows_are_data_and_nothing_of_the_machine_is_told(
    db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "canary-of-the-environment")
    tried = [
        "SELECT name FROM customers",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM csv.`/etc/passwd`",
        "SELECT getenv('CANARY')",
        "SELECT current_user(), input_file_name()",
        "SELECT '${env:CANARY}' AS x",
        "SELECT * FROM livingdb.jobs",
        "SELECT * FROM livingdb.log",
        "SELECT * FROM information_schema.tables",
    ]

    async def story() -> None:
        async with in_process(db) as agent:
            heard = []
            for sql in tried:
                try:
                    heard.append(await agent.text("query", sql=sql))
                except Refused as error:
                    heard.append(str(error))
            assert [row[0] for row in json.loads(heard[0])["rows"]] == ["Kari", ORDER]
            for tool in ("status", "list_tables", "list_branches", "alerts"):
                heard.append(await agent.text(tool))
            heard.append((await agent.client.read_resource("livingdb://schema")).contents[0].text)
            told = "\n".join(heard).replace(ORDER, "")
            assert "canary" not in told
            assert "root:" not in told

    play(story)


def test_schemas_are_documents_and_prompts_begin_work(db: livingdb.Database) -> None:
    async def story() -> None:
        async with in_process(db) as agent:
            client = agent.client
            (listed,) = (await client.list_resources()).resources
            (template,) = (await client.list_resource_templates()).resource_templates
            assert (listed.uri, template.uri_template) == (
                "livingdb://schema",
                "livingdb://schema/{ref}",
            )
            for uri in ("livingdb://schema", "livingdb://schema/v1"):
                document = json.loads((await client.read_resource(uri)).contents[0].text)
                assert [one["table"] for one in document["tables"]][:2] == ["customers", "orders"]
            with pytest.raises(Exception, match=r"\[not_found\] .*'nowhere'"):
                await client.read_resource("livingdb://schema/nowhere")
            prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
            assert prompts == ["make_a_change", "explain_a_number"]
            asked = {"view": "totals", "key": "{key}"}
            found = await client.get_prompt("explain_a_number", asked)
            assert "key {key} of the view totals" in found.messages[0].content.text

    play(story)
