"""Through a masked branch nobody reaches an original: originals are planted, and looked for."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.telling import tell

import livingdb
from livingdb import condition
from livingdb.chunks.address import Address
from livingdb.database.alert import Alert
from livingdb.evolution import AddColumn, DropColumn, MaskColumn, RenameColumn, SetDefault

KEY = "a key of the canaries"
MASKS = [
    MaskColumn("people", "email", key=KEY),
    MaskColumn("people", "card", method="token", key=KEY),
    MaskColumn("people", "note", method="null"),
    MaskColumn("people", "town", method="constant", value="somewhere"),
    MaskColumn("people", "salary", method="bucket", value=10**9),
    MaskColumn("people", "born", method="bucket", value="year"),
    MaskColumn("people", "phone", method="partial", value="last 1"),
    MaskColumn("people", "code", key=KEY),
    MaskColumn("people", "id", key=KEY),
    DropColumn("people", "secret"),
]
COLUMNS = {
    **{"id": "string", "city": "string", "email": "string", "card": "string", "note": "string"},
    **{"town": "string", "salary": "bigint", "born": "date", "phone": "string"},
    **{"code": "binary", "secret": "string"},
}
CANARIES = [
    *("canary-id", "canary-email", "canary-note", "canary-town", "canary-phone"),
    *("canary-code", "canary-secret", "canary-pick", "4929-canary", "86753099", "1987-06-05"),
    *("datetime.date(1987, 6, 5)", KEY),
]

MESSAGES = ["canary-message", "canary-statement"]
"""What is said of snapshots of the source: a picture of all branches shows that of each."""
BEHIND = ("masked", "mine", "by_place")
"""The branches behind the masks."""


def person(number: int, **values: Any) -> dict[str, Any]:
    return {
        **{"id": f"canary-id-{number}", "city": "Oslo", "email": f"canary-email-{number}"},
        **{"card": f"4929-canary-{number}", "note": f"canary-note-{number}"},
        **{"town": f"canary-town-{number}", "salary": 8_675_309_900 + number},
        **{"born": dt.date(1987, 6, 5), "phone": f"canary-phone-{number}"},
        **{"code": f"canary-code-{number}".encode(), "secret": f"canary-secret-{number}"},
        **values,
    }


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    """A source with originals and a history, its masked clone, and what is made of that."""
    path: Path = tmp_path_factory.mktemp("canaries") / "shop.ldb"
    with livingdb.create(path, author="ann", engine="embedded") as database:
        main = database.branch("main")
        defaults = {name: value for name, value in person(0).items() if name not in ("id", "city")}
        main.create_table("people", COLUMNS, key="id", defaults=defaults)
        main.insert("people", [person(n) for n in range(30)])
        guard = condition.in_range("salary", 0, 9_000_000_000, action="quarantine")
        warn = condition.max_changed_share(0.01, action="warn")
        masked = main.clone(
            "masked",
            transform=MASKS,
            sync="forward",
            when="immediate",
            conditions=[guard, warn],
        )
        main.upsert("people", [person(3, email="canary-email-new"), person(40)])
        main.insert("people", [person(41, salary=9_867_530_990_000)])
        main.delete("people", ["canary-id-5"], message="canary-message")
        main.sql("UPDATE people SET note = 'canary-statement' WHERE city = 'Oslo'")
        main.evolve(RenameColumn("people", "city", "place"), message="canary-message")
        main.evolve(AddColumn("people", "extra", "string"))
        main.evolve(SetDefault("people", "email", "canary-email-default"))
        masked.derive("by_place", sql="SELECT place, count(*) AS n FROM people GROUP BY place")
        database.refresh("by_place")
        masked.clone("mine")
        yield database


def texts(found: Any, depth: int = 0) -> Iterator[str]:
    """All that an answer tells, however it is asked."""
    yield f"{found!r} {found}"
    if isinstance(found, pa.Table):
        yield str(found.to_pylist())
        yield str(found.schema.metadata)
    elif isinstance(found, dict):
        for name, value in found.items():
            yield str(name)
            yield from texts(value, depth + 1)
    elif isinstance(found, list | tuple | set):
        for value in found:
            yield from texts(value, depth + 1)
    for name in ("to_arrow", "to_text", "_repr_html_", "to_svg", "to_html", "to_mermaid"):
        told = getattr(found, name, None)
        if callable(told) and not isinstance(found, pa.Table):
            yield str(told().to_pylist() if name == "to_arrow" else told())
    if type(found).__module__.startswith("livingdb") and depth < 2:
        yield from (text for _, one in answers(found) for text in texts(one, depth + 1))


CHANGES = {
    *("close", "compact", "detach", "reattach", "resume", "approve", "realign", "migrate"),
    *("acknowledge", "resolve", "propagate", "transaction", "to_polars", "to_base"),
}


def answers(found: Any) -> Iterator[tuple[str, Any]]:
    """What every public method that needs no argument, and every property, gives."""
    for name in dir(type(found)):
        if name.startswith("_") or name in CHANGES or hasattr(dict, name) or hasattr(int, name):
            continue
        value = tried(lambda name=name: getattr(found, name))
        if callable(value):
            asked = inspect.signature(value).parameters.values()
            if any(p.default is p.empty and p.kind not in (2, 4) for p in asked):
                continue
            value = tried(value)
        if type(value).__name__ not in ("Database", "Branch", "generator"):
            yield name, list(value) if isinstance(value, Iterator) else value


def search(told: str, where: str, is_of_all: bool = False) -> None:
    for canary in CANARIES if is_of_all else [*CANARIES, *MESSAGES]:
        assert canary not in told, f"{canary} in {where}"


QUERIES = [
    "SELECT * FROM people",
    "SELECT min(email) AS a, max(card) AS b, min(born) AS c, max(salary) AS d FROM people",
    "SELECT * FROM people WHERE email > 'c' ORDER BY id",
    "SHOW TABLES",
    "SHOW SYNCS",
    "SHOW ALERTS",
    "DESCRIBE EXTENDED people",
    "EXPLAIN SELECT * FROM people WHERE salary = 1",
    "SELECT * FROM information_schema.columns",
    "SELECT * FROM livingdb.log",
    "SELECT * FROM livingdb.branches",
    "SELECT * FROM livingdb.movements",
    "SELECT * FROM livingdb.edges",
    "SELECT * FROM livingdb.runs",
    "SELECT * FROM livingdb.jobs",
    "SELECT * FROM livingdb.blame('people')",
    "SELECT * FROM livingdb.history('people')",
    "SELECT * FROM livingdb.syncs",
    "SELECT * FROM livingdb.alerts",
    "SELECT * FROM people VERSION AS OF 'masked~1'",
    "INSERT INTO people (id) VALUES ('x')",
    "SELECT CAST(email AS INT) AS n FROM people",
    "SELECT email / 0 AS n FROM people",
    "SELECT secret FROM people",
]


def tried(asked: Callable[[], Any]) -> Any:
    """An answer, or what is said instead of one."""
    try:
        return asked()
    except livingdb.LivingDBError as error:
        return [f"{error!r}", vars(error)]


def test_objects(db: livingdb.Database) -> None:
    for name in BEHIND:
        branch = db.branch(name)
        for found in (branch, branch.head, *branch.log(), *map(branch.table, branch.tables())):
            for method, told in answers(found):
                for text in texts(told):
                    search(text, f"{name}: {found!r}.{method}")
    for found in (db.sync("masked"), db.sync("by_place"), *db.alerts(state=None)):
        if isinstance(found, Alert) and found.sync != "main/masked":
            continue
        for method, told in answers(found):
            for text in texts(told):
                search(text, f"{found!r}.{method}")


def test_queries(db: livingdb.Database) -> None:
    for name in BEHIND:
        for query in QUERIES:
            for text in texts(tried(lambda q=query, n=name: db.branch(n).sql(q))):
                search(text, f"{name}: {query}")


def test_defaults_are_told_on_this_side_of_a_mask(db: livingdb.Database) -> None:
    """A masked branch has its own, masked; others are told where no mask is looked through."""
    query = "SELECT table_schema AS at, column_default AS told FROM information_schema.columns "
    query += "WHERE column_name = 'town' ORDER BY 1"
    original = person(0)["town"]
    with db.branch("mine").transaction() as tx:
        assert tx.sql(query).to_arrow() == db.branch("mine").sql(query).to_arrow()
    for name in ("masked", "mine"):
        told = db.branch(name).sql(query).to_arrow().to_pylist()
        assert {row["at"]: row["told"] for row in told} == {
            **{"main": None, "masked": None, "mine": None},
            name: "somewhere",
        }
    shown = {row["at"]: row["told"] for row in db.branch("main").sql(query).to_arrow().to_pylist()}
    assert shown == {"main": original, "masked": "somewhere", "mine": "somewhere"}
    assert original in db.graph(["main"]).to_html()


def test_questions(db: livingdb.Database) -> None:
    masked = db.branch("masked")
    key = masked.table("people").to_arrow().column("id")[0].as_py()
    oldest = masked.log()[-1]
    asked: list[Callable[[], Any]] = [
        lambda: db.diff(oldest, "masked"),
        lambda: [one.to_arrow() for one in db.diff(oldest, "masked").values()],
        lambda: db.blame("masked", "people"),
        lambda: db.blame("masked", "people", key=key, columns=True),
        lambda: db.history("masked", "people"),
        lambda: db.history("mine", "people", key),
        lambda: db.lineage("masked.people", key),
        lambda: db.lineage("masked.people"),
        lambda: db.lineage("masked.people").commits,
        lambda: db.lineage("masked.people").to_base(),
        lambda: db.lineage("by_place", "Oslo"),
        lambda: db.column_lineage("masked.people"),
        lambda: db.forward_lineage("masked", "people", key),
        lambda: db.whereabouts("people", key, branch="masked"),
        lambda: db.provenance("masked"),
        lambda: db.provenance("by_place"),
        lambda: db.sync("masked").quarantined("people"),
        lambda: db.graph(["masked", "mine", "by_place"]),
        db.graph,
        lambda: db.check(deep=True),
        db.storage,
        lambda: db.at("masked~1").table("people").to_arrow(),
        lambda: db.at("masked~9"),
        lambda: db.merge("main", into="mine"),
        lambda: db.preview_merge("main", into="mine"),
        lambda: masked.table("people").get("nobody"),
        lambda: masked.table("people").to_arrow(where="CAST(email AS INT) = 1"),
        lambda: masked.upsert("people", [{"id": 1}]),
        lambda: db.branch("mine").insert("people", [{"id": key}]),
        lambda: db.branch("mine").revert("mine"),
        lambda: db.branch("mine").cherry_pick("masked~1"),
        lambda: masked.explain_evolution(DropColumn("people", "email")),
    ]
    for number, one in enumerate(asked):
        for text in texts(tried(one)):
            where = f"question {number}: {inspect.getsource(one).strip()}"
            search(text, where, is_of_all=one == db.graph)


@pytest.mark.slow
def test_a_question_for_spark(db: livingdb.Database) -> None:
    people = db.branch("masked").table("people")
    for text in texts(tried(lambda: people.to_arrow(where="email = 1"))):
        search(text, "a condition that Spark answers")


def test_files(db: livingdb.Database, tmp_path: Path) -> None:
    """What the branch reaches by addresses: every chunk under its tables and snapshots."""
    db.export_openlineage(tmp_path / "events.json")
    search((tmp_path / "events.json").read_text(), "OpenLineage events")
    graph = db._graph
    for name in BEHIND:
        for row in (snapshot._row for snapshot in db.branch(name).log()):
            search(str(graph.record(row.address)), f"the record of {name}")
            for table in graph.tables(row):
                version = graph.version(row, table)
                search(str(graph.versions.rows(version).to_arrow().to_pylist()), f"{name}.{table}")
                search_versions(graph, version, f"{name}.{table}")


def search_versions(graph: Any, version: Any, where: str) -> None:
    """All that a version is made from, in however many steps."""
    waiting, seen = [version], set()
    while waiting:
        one = waiting.pop()
        if one.address in seen:
            continue
        seen.add(one.address)
        recipe = graph.versions.recipe(one)
        search(f"{recipe} {graph.versions.rows(one).to_arrow().to_pylist()}", where)
        inputs = getattr(recipe, "data", {}).get("inputs", {}).values()
        inner = [Address(bytes.fromhex(address)) for address in inputs]
        waiting += [graph.versions.require(a) for a in (*inner, *filter(None, [one.base]))]


COMMANDS = [
    *(["log"], ["log", "masked"], ["graph"], ["graph", "--format", "mermaid"], ["syncs"]),
    *(["sync", "masked"], ["alerts"], ["provenance", "masked"], ["blame", "people"]),
    *(["history", "people"], ["diff", "masked~2", "masked", "--rows"], ["storage"], ["check"]),
    *(["lineage", "masked.people"], ["sql", "SELECT * FROM people"], ["sql", "SELECT email"]),
    *(
        ["branch", "list"],
        ["tag", "list"],
        ["merge", "main", "--preview"],
        ["diff", "mine", "masked"],
    ),
]


def test_commands(db: livingdb.Database) -> None:
    for command in COMMANDS:
        told = tell("--branch", "masked", "-o", "json", *command, db=db.name)
        search(told.out + told.err, " ".join(command))
