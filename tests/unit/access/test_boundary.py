"""Who may read a masked branch alone reaches nothing else, whatever is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.commit.masks.test_canaries import (
    CANARIES,
    COLUMNS,
    MASKS,
    MESSAGES,
    QUERIES,
    answers,
    person,
    texts,
    tried,
)

import livingdb
from livingdb import condition
from livingdb.evolution import AddColumn, DropColumn, RenameColumn

ROLES = ("reader", "maintainer")
SEEN = ("masked", "mine", "m_now", "by_place")


@pytest.fixture(scope="module")
def db(
    create_database: Callable[..., livingdb.Database], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[livingdb.Database]:
    """A source with originals, its masked clone, and other branches; users of the clone alone."""
    with create_database(
        tmp_path_factory.mktemp("boundary"), author="clerk", engine="embedded"
    ) as database:
        main = database.branch("main")
        database.rename_branch("main", "source-canary")
        main = database.branch("source-canary")
        main.create_table("people", COLUMNS, key="id")
        main.create_table("table-canary", {"id": "bigint"}, key="id")
        main.insert("people", [person(n) for n in range(5)], author="holder-canary")
        guard = condition.in_range("salary", 0, 9_000_000_000, action="quarantine")
        transform = [*MASKS, livingdb.evolution.DropTable("table-canary")]
        masked = main.clone(
            "masked",
            transform=transform,
            sync="forward",
            when="immediate",
            conditions=[guard],
            author="holder-canary",
        )
        masked.derive("m_now", sql="SELECT id, born FROM people", when="immediate")
        main.upsert(
            "people", [person(3, email="canary-email-new"), person(40)], author="holder-canary"
        )
        main.delete("people", ["canary-id-4"], message="canary-message")
        main.evolve(
            RenameColumn("people", "city", "place"),
            message="canary-message",
            author="holder-canary",
        )
        main.clone("branch-canary", message="canary-message")
        main.derive("view-canary", sql="SELECT place, count(*) AS n FROM people GROUP BY place")
        database.refresh("view-canary")
        database.tag("tag-canary", "source-canary")
        database.request_merge("branch-canary", into="source-canary", title="canary-title")
        database.watch("watch-canary", livingdb.alert.on_merge("source-canary"))
        database.label("table-canary.id", "label-canary")
        masked.derive("by_place", sql="SELECT place, count(*) AS n FROM people GROUP BY place")
        database.refresh("by_place")
        masked.clone("mine")
        for role in ROLES:
            user = database.people.add(role, role=role, branches="m*")
            database.people.grant(user.name, role=role, branches="by_place")
        yield database


def hidden_words(db: livingdb.Database) -> list[str]:
    """What none of them may be told: originals, names, ids, addresses, messages, authors."""
    graph = db._graph
    seen = {n for name in SEEN for n in log_ids(db, name)}
    ids = [s.id[:12] for s in db.snapshots() if s.id not in seen]
    branches = [row.id for row in graph.branches.all() if row.name not in SEEN]
    source = graph.branch("source-canary")
    head = graph.snapshots.at(source.head)
    versions = [address.hex()[:12] for address in graph.tables(head).values()]
    names = ["source-canary", "branch-canary", "view-canary", "tag-canary", "table-canary"]
    names += ["canary-title", "watch-canary", "label-canary", "holder-canary", "secret"]
    return [*CANARIES, *MESSAGES, *names, *ids, *branches, *versions]


def log_ids(db: livingdb.Database, name: str) -> list[str]:
    return [move.snapshot.id for move in db.branch(name).movements()]


@pytest.fixture(params=ROLES)
def searched(db: livingdb.Database, request: Any) -> Iterator[Callable[[Any, str], None]]:
    """What looks for the words in an answer, while a user acts."""
    words = hidden_words(db)

    def search(found: Any, where: str) -> None:
        for text in texts(found):
            for word in words:
                assert word not in text, f"{word} in {where}: {text[:2000]}"

    with db.acting_as(request.param):
        yield search


def test_objects(db: livingdb.Database, searched: Callable[[Any, str], None]) -> None:
    assert [b.name for b in db.branches()] == sorted(SEEN)
    for name in SEEN:
        branch = db.branch(name)
        for found in (branch, branch.head, *branch.log(), *map(branch.table, branch.tables())):
            for method, told in answers(found):
                searched(told, f"{name}: {found!r}.{method}")
    for method, told in answers(db):
        if method not in ("name",):
            searched(told, f"db.{method}")


def test_queries(db: livingdb.Database, searched: Callable[[Any, str], None]) -> None:
    more = [
        "SELECT * FROM livingdb.tags",
        "SELECT * FROM livingdb.merge_requests",
        "SELECT * FROM livingdb.outbox",
        "SELECT * FROM livingdb.watches",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM information_schema.views",
        "SELECT * FROM information_schema.schemata",
        "SELECT * FROM `source-canary`.people",
        "SELECT * FROM people VERSION AS OF 'source-canary'",
        "SELECT * FROM `view-canary`",
        "SELECT * FROM livingdb.diff('source-canary', 'masked', 'people')",
        "SHOW BRANCHES",
        "SHOW TAGS",
        "DROP BRANCH `branch-canary`",
        "DROP TAG `tag-canary`",
        "CREATE BRANCH `m2` FROM `source-canary`",
        "CREATE VIEW `mview` AS SELECT * FROM `source-canary`.people",
        "MERGE BRANCH `source-canary` INTO mine",
        "INSERT INTO people (id) SELECT id FROM `source-canary`.people",
    ]
    hidden = ("source-canary", "branch-canary", "view-canary", "tag-canary")
    for name in SEEN:
        for query in [*QUERIES, *more]:
            found = tried(lambda q=query, n=name: db.branch(n).sql(q))
            if any(word in query for word in hidden):  # who names it is told the name again
                assert_not_found(found, query)
            elif "secret" not in query:
                searched(found, f"{name}: {query}")


def assert_not_found(found: Any, where: str) -> None:
    assert isinstance(found, list), where
    assert found[0].startswith(("NotFound", "Forbidden", "ReadOnlyBranch")), (found, where)
    known = {"source-canary", "branch-canary", "view-canary", "tag-canary"}
    named = {word for word in known if word in where}
    assert not any(word in str(found) for word in known - named), (found, where)


def test_questions(db: livingdb.Database, searched: Callable[[Any, str], None]) -> None:
    masked = db.branch("masked")
    key = masked.table("people").to_arrow().column("id")[0].as_py()
    oldest = masked.log()[-1]
    asked: dict[str, Callable[[], Any]] = {
        "diff": lambda: db.diff(oldest, "masked"),
        "blame": lambda: db.blame("masked", "people"),
        "cells": lambda: db.blame("masked", "people", key=key, columns=True),
        "history": lambda: db.history("mine", "people", key),
        "lineage": lambda: db.lineage("masked.people", key),
        "base": lambda: db.lineage("masked.people").to_base(),
        "view lineage": lambda: db.lineage("by_place", "Oslo"),
        "columns": lambda: db.column_lineage("masked.people"),
        "view columns": lambda: db.column_lineage("by_place"),
        "forward": lambda: db.forward_lineage("masked", "people", key),
        "whereabouts": lambda: db.whereabouts("people", key, branch="masked"),
        "provenance": lambda: db.provenance("masked"),
        "view provenance": lambda: db.provenance("by_place"),
        "picture": lambda: db.graph(SEEN),
        "graph": db.graph,
        "page": lambda: db.graph().to_html(),
        "sync": lambda: db.sync("masked"),
        "view sync": lambda: db.sync("by_place"),
        "old": lambda: db.at("masked~9"),
        "time": lambda: db.at("masked@2020-01-01"),
        "get": lambda: masked.table("people").get("nobody"),
        "write": lambda: masked.upsert("people", [{"id": 1}]),
        "transaction": lambda: masked.transaction().sql("SELECT * FROM people"),
        "mine": lambda: db.branch("mine").insert("people", [{"id": key}]),
        "revert": lambda: db.branch("mine").revert("mine"),
        "pick": lambda: db.branch("mine").cherry_pick("masked~1"),
        "explain": lambda: masked.explain_evolution(DropColumn("people", "email")),
        "evolve": lambda: masked.evolve(AddColumn("people", "x", "int")),
        "clone": lambda: masked.clone("elsewhere"),
        "drop": lambda: db.drop_branch("masked"),
        "rename": lambda: db.rename_branch("masked", "elsewhere"),
        "derived": lambda: db.derived_at("by_place", "masked"),
        "refresh": lambda: db.refresh("masked"),
        "full": lambda: db.refresh("masked", full=True),
        "retire": lambda: db.retire("masked"),
        "alerts": db.alerts,
        "default": lambda: db.default_branch,
        "reset": lambda: masked.reset("masked~1"),
        "relayout": lambda: masked.relayout("people", livingdb.Layout()),
        "migrate": masked.migrate,
    }
    for name, one in asked.items():
        searched(tried(one), name)


def test_what_is_not_seen_is_not_there(db: livingdb.Database, searched: Any) -> None:
    with db_of_files(db):
        ids = {
            "branch": "source-canary",
            "tag": "tag-canary",
            "id": db.branch("source-canary").head.id,
            "prefix": db.branch("source-canary").head.id[:10],
            "back": "source-canary~1",
            "time": "source-canary@now",
            "view": "view-canary",
        }
    for ref in ids.values():
        missing = str(tried(lambda r=ref: db.at(r))).replace(ref, "X")
        never = str(tried(lambda r=ref: db.at(r.replace("canary", "nobody")))).replace(
            ref.replace("canary", "nobody"), "X"
        )
        assert missing[2:].startswith("NotFound"), missing
        if "canary" in ref and "~" not in ref and "@" not in ref:
            assert missing == never


def db_of_files(db: livingdb.Database) -> Any:
    from livingdb.access.acting import unchecked

    return unchecked()


def test_pictures_do_not_tell_where_the_database_is(db: livingdb.Database) -> None:
    place = db.name
    assert place in db.graph().to_text()
    for role in ROLES:
        with db.acting_as(role):
            for told in (db.graph().to_text(), db.graph().to_svg(), db.graph().to_html()):
                assert place not in told
