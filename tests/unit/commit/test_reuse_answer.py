"""The same view over another branch begins with the nearest answer there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import livingdb
from livingdb.catalog.syncs import Syncs
from livingdb.chunks.address import Address
from livingdb.commit.deriving import reuse_answer
from livingdb.commit.deriving.reuse_answer import nearest_answer
from livingdb.derivation.arrays import kept_rows
from livingdb.derivation.refresh_view import RefreshInput, SourceVersion
from livingdb.derivation.view import View
from livingdb.graph.graph import tables_of
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition

QUERY = "SELECT city, count(*) AS n FROM t GROUP BY city"
COUNT = 1_000


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    """A view on `main`, one on `near`, which is closer to `here`, and branches without views."""
    path: Path = tmp_path_factory.mktemp("reuse") / "db"
    with livingdb.create(path, author="ann", engine="embedded") as database:
        main = database.branch("main")
        main.create_table("t", {"id": "bigint", "city": "string"}, key="id")
        main.insert("t", {"id": range(COUNT), "city": ["Oslo", "Bodø"] * (COUNT // 2)})
        main.derive("totals", QUERY)
        near = main.clone("near")
        near.upsert("t", {"id": range(20), "city": ["Bergen"] * 20})
        near.derive("near_totals", QUERY)
        near.clone("here").delete("t", [1, 2])
        near.clone("same")
        far = near.clone("far")
        far.upsert("t", {"id": range(COUNT // 2), "city": ["Voss"] * (COUNT // 2)})
        other = main.clone("other")
        other.create_table("u", {"id": "bigint"}, key="id")
        yield database


def version(db: livingdb.Database, branch: str, table: str = "t") -> Version:
    graph = db._graph
    return tables_of(graph, graph.snapshots.at(graph.branch(branch).head))[table]


def address(db: livingdb.Database, branch: str, table: str = "t") -> Address:
    return version(db, branch, table).address


def inputs(db: livingdb.Database, branch: str) -> dict[str, RefreshInput]:
    return {"t": RefreshInput(None, SourceVersion(version(db, branch)))}


def view_of(db: livingdb.Database, name: str = "mine") -> View:
    """The view as it would be over another branch."""
    (sync,) = (one for one in db._graph.catalog.syncs.all() if one.spec["name"] == "totals")
    return replace(View.from_json(sync.spec), name=name)


@pytest.fixture
def none_is_near_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """All answers are looked at, as where more rows differ."""
    monkeypatch.setattr(reuse_answer, "_NEAR_ROWS", 0)


@pytest.mark.usefixtures("none_is_near_enough")
def test_the_nearest_answer_is_taken_under_the_name_of_the_new_view(
    db: livingdb.Database,
) -> None:
    found = nearest_answer(db._graph, view_of(db), inputs(db, "here"))
    assert found is not None
    begins = found.inputs["t"]
    assert begins.old is not None
    assert begins.old.version.address == address(db, "near"), "two rows differ, from main's 22"
    assert begins.new.version.address == address(db, "here")
    assert found.held["mine"].address == address(db, "near_totals", "near_totals")


def test_an_answer_that_is_near_enough_is_taken_at_once(db: livingdb.Database) -> None:
    found = nearest_answer(db._graph, view_of(db), inputs(db, "here"))
    assert found is not None
    begins = found.inputs["t"]
    assert begins.old is not None
    assert begins.old.version.address in (address(db, "main"), address(db, "near"))
    assert begins.new.version.address == address(db, "here")


@pytest.mark.usefixtures("none_is_near_enough")
def test_an_answer_over_the_same_rows_is_taken_as_it_is(db: livingdb.Database) -> None:
    for branch, name in (("main", "totals"), ("same", "near_totals")):
        found = nearest_answer(db._graph, view_of(db), inputs(db, branch))
        assert found is not None
        assert found.held["mine"].address == address(db, name, name)
        begins = found.inputs["t"]
        assert begins.old is not None
        assert begins.old.version.address == begins.new.version.address


def test_what_is_too_far_is_no_help(db: livingdb.Database) -> None:
    assert nearest_answer(db._graph, view_of(db), inputs(db, "far")) is None


@pytest.mark.parametrize(
    "change",
    [
        {"what": "model"},
        {"refresh": "full"},
        {"materialize": "none"},
        {"materialize": "where n > 1"},
        {"key": ("n",)},
        {"query": "SELECT city, count(*) AS n FROM t GROUP BY city "},
        {"tables": {}},
    ],
)
def test_another_view_begins_on_its_own(db: livingdb.Database, change: dict[str, object]) -> None:
    other = replace(view_of(db), **change)
    assert nearest_answer(db._graph, other, inputs(db, "here")) is None


def test_a_table_of_another_schema_is_no_help(db: livingdb.Database) -> None:
    asked = {"t": RefreshInput(None, SourceVersion(version(db, "other", "u")))}
    assert nearest_answer(db._graph, view_of(db), asked) is None


@pytest.fixture
def kept_reads(monkeypatch: pytest.MonkeyPatch) -> list[Address]:
    """The versions that are read to be kept in memory."""
    found: list[Address] = []
    read = kept_rows._read_rows
    monkeypatch.setattr(
        kept_rows, "_read_rows", lambda at, rows: found.append(at) or read(at, rows)
    )
    return found


def test_later_views_over_other_branches_read_nothing_again(
    tmp_path: Path, kept_reads: list[Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they begin with stays in memory, and so do the syncs and what was found out of them."""
    with livingdb.create(tmp_path / "db", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "city": "string"}, key="id")
        main.insert("t", {"id": range(COUNT), "city": ["Oslo", "Bodø"] * (COUNT // 2)})
        main.derive("totals", QUERY, when="on demand")
        branches = [main.clone(f"b{n}") for n in range(4)]
        for number, branch in enumerate(branches):
            branch.upsert("t", {"id": [number, 500], "city": ["Bergen", "Oslo"]})
        branches[0].derive("v0", QUERY, when="on demand")
        kept_reads.clear()
        monkeypatch.setattr(Syncs, "_read_changed", None)
        monkeypatch.setattr(Definition, "load", None)
        for number, branch in enumerate(branches[1:], 1):
            branch.derive(f"v{number}", QUERY, when="on demand")
        assert kept_reads == []
        monkeypatch.undo()
        for number, branch in enumerate(branches):
            found = branch.sql(f"{QUERY} ORDER BY city").to_arrow()
            assert branch.sql(f"SELECT * FROM v{number} ORDER BY city").to_arrow() == found
        db.check(deep=True)


def test_a_definition_that_is_made_is_the_one_that_is_stored(db: livingdb.Database) -> None:
    versions = db._graph.versions
    made = version(db, "near_totals", "near_totals")
    stored = Definition.load(versions.store, made.definition)
    assert (versions.definition(made), made.definition) == (stored, stored.to_chunk().address)
    assert versions.definition(made).schema.identities == stored.schema.identities
