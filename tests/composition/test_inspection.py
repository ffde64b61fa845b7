"""The law *total*: whatever became of the sources of syncs, all questions are answered."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.telling import tell
from tests.composition.situations import SITUATIONS, VIEWS, make_base
from tests.thinned import thinned

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


@pytest.fixture(params=thinned(SITUATIONS, every=6), scope="module")
def situation(
    request: pytest.FixtureRequest, base: Path, folder: Path
) -> Iterator[tuple[str, Path]]:
    """A name of what happened, and a database to which it did; one at a time."""
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
        for table in branch.tables() if branch.name in (*VIEWS, "main", "masked") else ():
            at = (branch.name, table)
            yield f"blame {at}", lambda at=at: db.blame(*at)
            if branch.name in VIEWS:
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


def commands(db: Database, names: Iterable[str], folder: Path) -> Iterator[list[str]]:
    yield from (["log"], ["branch"], ["tag"], ["syncs"], ["alerts"], ["storage"], ["check"])
    yield ["graph", "--format", "html", "--out", str(folder / "graph.html")]
    for name in list(names)[:3]:
        yield ["-o", "json", "sync", name]
    for name in [name for name in names if name in VIEWS][:1]:
        yield ["lineage", name]
        yield ["lineage", name, "--columns"]
    for table in db.branch("main").tables()[-1:]:
        yield ["blame", table]
        yield ["history", table]
    yield ["diff", "main~1", "main"]


def test_commands_answer(db: Database, situation: tuple[str, Path], tmp_path: Path) -> None:
    failures = {}
    for command in commands(db, SITUATIONS[situation[0]].seen, tmp_path):
        told = tell(*command, db=situation[1])
        if told.code not in ((0, 1) if command[0] == "diff" else (0,)):
            failures[" ".join(command)] = told.err.strip().splitlines()[-1:]
    assert failures == {}


# --- what the answers say -------------------------------------------------------------------------


@pytest.fixture
def happened(base: Path, tmp_path: Path) -> Iterator[Callable[[str], Database]]:
    """A database to which something happened, by the name of the situation."""
    opened: list[Database] = []

    def open_it(name: str) -> Database:
        path = tmp_path / "one.ldb"
        shutil.copytree(base, path)
        db = livingdb.open(path, author="ann", engine="embedded", trust=["tests.*"])
        opened.append(db)
        db._graph.on_alert = None
        SITUATIONS[name].happen(db)
        return db

    yield open_it
    for db in opened:
        db.close()


def test_columns_that_went_are_told(happened: Callable[[str], Database]) -> None:
    db = happened("a column dropped")
    found = db.column_lineage("seen")
    assert found == {"id": ["orders.id"], "amount": ["orders.amount"]}
    assert found.gone == ["orders.amount"]
    assert found.to_text().splitlines() == [
        "seen",
        "  id <- orders.id",
        "  amount <- orders.amount (gone)",
        "  filter: orders.amount (gone)",
    ]
    assert db.column_lineage("tops")["most"] == ["orders.amount"], "through a view that stopped"


def test_tables_and_branches_that_went_are_told(happened: Callable[[str], Database]) -> None:
    db = happened("the only source dropped")
    found = db.column_lineage("gone")
    assert found == {"id": ["orders.id"], "amount": ["orders.amount"]}
    assert sorted(found.gone) == ["orders.amount", "orders.id"]
    assert found.places["id"] == [("other", "orders", "id")], "by the name that it had"
    rows = db.lineage("gone", key=(2,))
    assert rows.branches == {"orders": "other"}
    assert rows["orders"].column("id").to_pylist() == [2]


def test_a_table_made_anew_is_another(happened: Callable[[str], Database]) -> None:
    db = happened("a table made anew")
    found = db.column_lineage("seen")
    assert found == {"id": ["orders.id"], "amount": ["orders.amount"]}
    assert sorted(found.gone) == ["orders.amount", "orders.id"]
    assert db.history("main", "orders").num_rows == 0
    assert db.lineage("seen", key=(2,))["orders"].column("city").to_pylist() == ["Oslo"]


def test_what_was_evolved_by_hand_is_gone_through(happened: Callable[[str], Database]) -> None:
    db = happened("views evolved by hand")
    found = db.column_lineage("seen")
    assert found == {
        "id": ["orders.id"],
        "net": ["orders.amount"],
        "twice": ["orders.amount"],
    }
    assert found.gone == []
    assert db.column_lineage("sums") == {"city": ["orders.city"]}
    masked = db.column_lineage("masked.orders")
    assert masked["text"] == ["orders.note"]
    assert masked.masked == {"text": ["orders.note"]}
    assert db.column_lineage("tops") == {"id": ["orders.id"], "most": ["orders.amount"]}
    assert db.lineage("seen", key=(2,))["orders"].column("amount").to_pylist() == [2]
    assert db.derived_at("seen", source="main").tables() == ["seen"]


def test_rows_written_by_hand_are_their_own_origin(happened: Callable[[str], Database]) -> None:
    db = happened("views written by hand")
    whole = db.lineage("seen")
    assert whole["seen"].column("id").to_pylist() == [2, 70], "somebody wrote these"
    assert whole["orders"].column("id").to_pylist() == [3]
    assert whole.branches == {"orders": "main", "seen": "seen"}
    assert list(db.lineage("seen", key=(70,))) == ["seen"]
    assert list(db.lineage("seen", key=(3,))) == ["orders"]


def test_a_view_that_was_reset_has_nothing_but_its_own(
    happened: Callable[[str], Database],
) -> None:
    db = happened("a view reset to another branch")
    assert db.lineage("seen.cities").branches == {"cities": "seen"}
    assert db.column_lineage("seen") == {"id": ["orders.id"], "amount": ["orders.amount"]}


def test_a_branch_that_is_dropped_leaves_a_trail(happened: Callable[[str], Database]) -> None:
    sync = happened("the only source dropped").sync("gone")
    assert [(step["state"], step["reason"]) for step in sync.trail] == [("detached", sync.reason)]


def test_a_stopped_lens_is_traced_to_where_it_was_in_step(
    happened: Callable[[str], Database],
) -> None:
    db = happened("detached, and written")
    found = db.lineage("next.orders")
    assert found["next.orders"].column("id").to_pylist() == [5, 6]
    assert found["old.orders"].column("id").to_pylist() == [1, 2, 3]
    lag = db.sync("next").lag
    assert lag is not None
    assert lag.sources == {"old": 1, "next": 2}


def test_lag_is_told_for_each_branch(happened: Callable[[str], Database]) -> None:
    db = happened("nothing")
    db.branch("main").insert("orders", [{"id": 4}])
    for number in (8, 9):
        db.branch("dev").insert("orders", [{"id": number}])
    lag = db.sync("gaps").lag
    assert lag is not None
    assert (lag, lag.sources) == (3, {"main": 1, "dev": 2})
    assert lag.seconds >= 0
    db.drop_branch("dev", detach=True)
    lag = db.sync("gaps").lag
    assert lag is not None
    assert (lag, lag.sources) == (1, {"main": 1, "dev": None})


def test_a_source_that_is_another_branch_line_is_counted_from_the_fork(
    happened: Callable[[str], Database],
) -> None:
    """A reset to another line, a merge by fast-forward, and back."""
    db = happened("nothing")
    main = db.branch("main")
    before = main.head
    main.reset("dev")
    assert db.sync("sums").lag == 1, "dev has one snapshot more than was taken"
    db.propagate()
    assert db.sync("sums").lag == 0
    main.reset(before)
    assert db.sync("sums").lag == 1, "it goes back"
    side = main.clone("side")
    for number in (20, 21, 22):
        side.insert("orders", [{"id": number}])
    db.merge("side", into="main")
    assert db.sync("sums").lag == 3
    db.propagate()
    assert {int(sync.lag or 0) for sync in db.syncs()} == {0}
