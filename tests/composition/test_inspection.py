"""The law *total*: whatever became of the sources of syncs, everything answers that can be asked."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.telling import tell
from tests.composition.situations import SITUATIONS, VIEWS, make_base

import livingdb

Database = livingdb.Database
Ask = Callable[[], object]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inspection") / "base.ldb"
    make_base(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("situations")


@pytest.fixture(params=SITUATIONS, scope="module")
def situation(
    request: pytest.FixtureRequest, base: Path, folder: Path
) -> Iterator[tuple[str, Path]]:
    """A name of what happened, and a database to which it did; one at a time."""
    import shutil

    name = request.param
    path = folder / f"{name.replace(' ', '-')}.ldb"
    shutil.copytree(base, path)
    with livingdb.open(path, author="ann", engine="embedded", trust=["tests.*"]) as db:
        db._graph.on_alert = None
        SITUATIONS[name].happen(db)
    yield name, path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def db(situation: tuple[str, Path]) -> Iterator[Database]:
    name, path = situation
    trust = list(SITUATIONS[name].trust)
    with livingdb.open(path, author="bo", engine="embedded", trust=trust) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is asked here starts Spark."""

    def refuse(*given: object, **named: object) -> Any:
        raise livingdb.errors.Unsupported("there is no Spark here")

    monkeypatch.setattr("livingdb.engines.spark.session.spark_session", refuse)


def check_answers(asked: dict[str, Ask]) -> None:
    """Every question has an answer."""
    failures = {}
    for what, ask in asked.items():
        try:
            ask()
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            failures[what] = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
    assert failures == {}


def test_syncs_say_how_they_are(db: Database, situation: tuple[str, Path]) -> None:
    found = {sync.target: sync for sync in db.syncs()}
    for name, seen in SITUATIONS[situation[0]].seen.items():
        sync = found[name]
        assert (sync.state, sync.lag) == (seen.state, seen.lag), (name, sync.reason)
        assert seen.reason in sync.reason, name


def questions_about_syncs(db: Database) -> Iterator[tuple[str, Ask]]:
    for sync in db.syncs():
        one = sync
        yield f"{one.name} explain", one.explain
        yield f"{one.name} page", one._repr_html_
        for name in ("state", "reason", "lag", "runs", "trail", "sources", "direction", "when"):
            yield f"{one.name} {name}", lambda one=one, name=name: getattr(one, name)
        if one.target in VIEWS and db.branch(one.target).tables() == [one.target]:
            yield f"{one.name} quarantined", one.quarantined


def test_syncs_are_explained(db: Database) -> None:
    check_answers(dict(questions_about_syncs(db)))


def questions_about_origins(db: Database, folder: Path) -> Iterator[tuple[str, Ask]]:
    for sync in db.syncs():
        head = db.branch(sync.target).head
        names = (
            [sync.target] if sync.target in VIEWS else [f"{sync.target}.{t}" for t in head.tables()]
        )
        for name in names:
            for base in (True, False):
                yield (
                    f"columns of {name} {base}",
                    lambda n=name, b=base: str(db.column_lineage(n, base=b)),
                )
                yield f"rows of {name} {base}", lambda n=name, b=base: str(db.lineage(n, base=b))
    for branch in db.branches():
        yield f"provenance {branch.name}", lambda b=branch: str(db.provenance(b.name))
        yield f"log {branch.name}", branch.log
        for table in branch.tables():
            at = (branch.name, table)
            yield f"blame {at}", lambda at=at: db.blame(*at)
            yield f"cells {at}", lambda at=at: db.blame(*at, columns=True)
            yield f"history {at}", lambda at=at: db.history(*at)
    for table in db.branch("main").tables():
        key = next(iter(db.branch("main").table(table).to_arrow().to_pylist()), None)
        if key is not None:
            first = key[db.branch("main").table(table).key[0]]
            at = (table, first)
            yield f"forward {at}", lambda at=at: str(db.forward_lineage("main", *at))
            yield f"whereabouts {at}", lambda at=at: str(db.whereabouts(*at))
    yield "openlineage", lambda: db.export_openlineage(folder / "events.json")


def test_origins_are_told(db: Database, tmp_path: Path) -> None:
    check_answers(dict(questions_about_origins(db, tmp_path)))


def questions_about_the_whole(db: Database) -> Iterator[tuple[str, Ask]]:
    for kind in ("text", "mermaid", "svg", "html"):
        yield kind, lambda kind=kind: getattr(db.graph(), f"to_{kind}")()
    for name in ("log", "branches", "edges", "alerts", "outbox", "watches"):
        query = f"SELECT * FROM livingdb.{name}"
        yield query, lambda query=query: db.branch("main").sql(query).to_arrow()
    for what in ("branches", "tags", "snapshots", "syncs", "alerts", "watches", "labels"):
        yield what, lambda what=what: str(getattr(db, what)())
    yield "storage", lambda: str(db.storage())
    yield "page", db._repr_html_
    for branch in db.branches():
        yield f"page of {branch.name}", branch._repr_html_
        yield f"page of the head of {branch.name}", branch.head._repr_html_


def test_the_whole_is_shown(db: Database) -> None:
    check_answers(dict(questions_about_the_whole(db)))
    assert db.check().problems == []


def commands(db: Database, folder: Path) -> Iterator[list[str]]:
    yield from (["log"], ["branch"], ["tag"], ["syncs"], ["alerts"], ["storage"], ["check"])
    yield ["-o", "json", "syncs"]
    yield ["graph"]
    for kind in ("mermaid", "svg", "html"):
        yield ["graph", "--format", kind, "--out", str(folder / f"graph.{kind}")]
    for sync in db.syncs():
        yield ["sync", sync.name]
        if sync.target in VIEWS:
            yield ["lineage", sync.target]
            yield ["lineage", sync.target, "--columns"]
    for table in db.branch("main").tables():
        yield ["blame", table]
        yield ["history", table]
    yield ["diff", "main~1", "main"]


def test_commands_answer(db: Database, situation: tuple[str, Path], tmp_path: Path) -> None:
    failures = {}
    for command in commands(db, tmp_path):
        told = tell(*command, db=situation[1])
        if told.code not in ((0, 1) if command[0] == "diff" else (0,)):
            failures[" ".join(command)] = told.err.strip().splitlines()[-1:]
    assert failures == {}
