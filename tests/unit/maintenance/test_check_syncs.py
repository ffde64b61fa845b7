"""A deep check finds what is not as an active sync says, and what it advises mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.thinned import thinned

import livingdb
from livingdb.catalog.branches import BranchRow
from livingdb.commit.stopping import realign_sync
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    AddUnique,
    ChangeKey,
    ConcatColumns,
    CreateTable,
    Decompose,
    DropColumn,
    DropConstraint,
    DropTable,
    JoinTables,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SplitColumn,
    SplitTable,
    UnionTables,
)
from livingdb.graph.commit_point import CommitPoint
from livingdb.graph.draft import Intent
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.storage.staging import Staging
from livingdb.maintenance.check_syncs import BrokenPromise
from livingdb.tables import ingest
from livingdb.tables.index import Tree, Version


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as made:
        main = made.branch("main")
        columns = {"id": "bigint", "v": "bigint", "f": "double", "s": "string"}
        main.create_table("t", columns, key="id")
        main.create_table("u", columns, key="id")
        main.insert("t", rows(range(20)))
        main.insert("u", rows(range(100, 110)))
        yield made


def rows(ids: Sequence[int]) -> dict[str, list[Any]]:
    return {
        "id": list(ids),
        "v": [number % 4 for number in ids],
        "f": [number / 8 for number in ids],
        "s": [f"a-{number}" for number in ids],
    }


def write(db: livingdb.Database) -> None:
    """Something that all syncs carry."""
    main = db.branch("main")
    main.upsert("t", {"id": [3, 50], "v": [2, 3], "f": [0.5, None], "s": ["b-c-d", None]})
    main.delete("t", [4])
    db.propagate()


# --- planting -----------------------------------------------------------------------------------


def plant(db: livingdb.Database, branch: str, table: str, wrong: Mapping[str, object]) -> None:
    """Give a row of a table other values, as no sync would: its branch moves, and nobody sees."""
    plant_on(db._graph, db._graph.branch(branch), table, wrong)


def plant_on(graph: Graph, row: BranchRow, table: str, wrong: Mapping[str, object]) -> None:
    head = graph.snapshots.at(row.head)
    version = tables_of(graph, head)[table]
    held = graph.versions.rows(version)
    names = [column.name for column in held.schema.columns]
    first = held.to_arrow(names).slice(0, 1).to_pylist()[0]
    changed = pa.Table.from_pylist([{**first, **wrong}], held.to_arrow(names).schema)
    with graph.stage() as staging:
        delta = ingest.carried_upserts(held.schema, held.forest.shape, changed)
        made = graph.versions.change(version, delta, staging.sink)
        move_to(graph, row, {table: made}, staging)


def move_to(
    graph: Graph, row: BranchRow, tables: Mapping[str, Version | None], staging: Staging
) -> None:
    """Another head, which claims to be what the last one was."""
    head = graph.snapshots.at(row.head)
    edge = graph.record(head.address).edge
    claims = (edge.sources, edge.details)
    intent = Intent((head,), (row,), "propagate", "refresh", "nobody", "", tables, *claims)
    commit_point = CommitPoint(graph)
    assert commit_point.store([commit_point.draft(intent, staging)], staging) is not None


def delete_first(db: livingdb.Database, branch: str, table: str) -> None:
    """Take a row from a table whose key is hidden."""
    graph = db._graph
    row = graph.branch(branch)
    version = tables_of(graph, graph.snapshots.at(row.head))[table]
    held = graph.versions.rows(version)
    keys = held.to_arrow(list(held.schema.key)).slice(0, 1)
    with graph.stage() as staging:
        delta = ingest.deletes(held.schema, held.forest.shape, keys)
        made = graph.versions.change(version, delta, staging.sink)
        move_to(graph, row, {table: made}, staging)


def broken(db: livingdb.Database) -> list[BrokenPromise]:
    found = db.check(deep=True).problems
    assert all(isinstance(problem, BrokenPromise) for problem in found), found
    return found


def mend(db: livingdb.Database, problem: BrokenPromise) -> None:
    """Do what a finding says, to the letter."""
    code, _, words = problem.mend.partition(" makes it anew")
    assert words == ""
    eval(code, {"db": db})


def state(db: livingdb.Database, branch: str) -> dict[str, Any]:
    graph = db._graph
    tables = tables_of(graph, graph.snapshots.at(graph.branch(branch).head))
    return {name: graph.versions.rows(v).to_arrow().to_pylist() for name, v in tables.items()}


def check_planted(
    db: livingdb.Database, sync: str, branch: str, table: str, sown: Callable[[], None]
) -> None:
    """What is sown is found, named, and mended, and nothing else is there."""
    write(db)
    assert broken(db) == []
    before = state(db, branch)
    sown()
    assert state(db, branch) != before
    found = broken(db)
    assert [(problem.sync, problem.table) for problem in found] == [(sync, table)]
    (problem,) = found
    assert problem.rows == 1
    assert len(problem.keys) == 1
    assert str(next(iter(problem.keys[0].values()))) in str(problem)
    assert "1 row differs" in str(problem)
    mend(db, problem)
    assert broken(db) == []
    assert state(db, branch) == before
    write(db)
    db.branch("main").upsert("t", rows([7, 60]))
    db.propagate()
    assert broken(db) == []


# --- views --------------------------------------------------------------------------------------

GROUPS = "SELECT v, count(*) AS n, sum(f) AS f FROM t GROUP BY v"
HAVING = "SELECT v, count(*) AS n FROM t GROUP BY v HAVING count(*) > 1"


@dataclass
class ViewCase:
    sql: str
    options: Mapping[str, Any] = field(default_factory=dict)
    table: str = "view"
    wrong: Mapping[str, object] = field(default_factory=lambda: {"n": 77})


VIEWS = {
    "linear": ViewCase("SELECT id, s FROM t WHERE v > 0", {"when": "immediate"}, wrong={"s": "no"}),
    "additive": ViewCase(GROUPS, {"when": "immediate"}),
    "floats": ViewCase(GROUPS, {"when": "immediate"}, wrong={"f": 1.25}),
    "join": ViewCase(
        "SELECT t.id, u.v AS n FROM t LEFT JOIN u ON t.v = u.id - 100", {"when": "immediate"}
    ),
    "having": ViewCase(HAVING, {"when": "immediate"}),
    "deferred": ViewCase(GROUPS, {"when": "deferred"}),
    "full": ViewCase(GROUPS, {"when": "deferred", "refresh": "full"}),
    "window": ViewCase(
        "SELECT id, row_number() OVER (ORDER BY id) AS n FROM t", {"when": "deferred"}
    ),
    "lazy": ViewCase("SELECT id, v + 1 AS n FROM t", {"materialize": "lazy"}),
    "none": ViewCase("SELECT id, v + 1 AS n FROM t", {"materialize": "none"}),
    "hot": ViewCase(
        "SELECT id, v AS n FROM t", {"materialize": "where id > 5", "when": "immediate"}
    ),
    "hot part": ViewCase("SELECT id, v AS n FROM t", {"materialize": "where id > 5"}, "~hot/view"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_stale_view(db: livingdb.Database, name: str) -> None:
    case = VIEWS[name]
    db.branch("main").derive("view", case.sql, **case.options)
    check_planted(
        db, "main/view", "view", case.table, lambda: plant(db, "view", case.table, case.wrong)
    )


def test_stale_hidden_stage(db: livingdb.Database) -> None:
    db.branch("main").derive("view", HAVING, when="immediate")
    (stage,) = [name for name in state(db, "view") if is_hidden(name)]
    (number,) = [name for name in state(db, "view")[stage][0] if name != "v"][:1]
    check_planted(db, "main/view", "view", stage, lambda: plant(db, "view", stage, {number: 1000}))


def test_stale_view_without_key(db: livingdb.Database) -> None:
    db.branch("main").derive("view", "SELECT v FROM t", when="immediate")
    check_planted(db, "main/view", "view", "view", lambda: delete_first(db, "view", "view"))


def test_view_moved_back(db: livingdb.Database) -> None:
    """The catalog names an older head: an immediate view that is not at its sources."""
    db.branch("main").derive("view", GROUPS, when="immediate")
    write(db)
    graph = db._graph
    row = graph.branch("view")
    older = graph.snapshots.at(graph.snapshots.at(row.head).first)
    with graph.catalog.write() as connection:
        assert graph.branches.move(connection, row, older.sequence, now(), "restore")
    (problem,) = broken(db)
    assert (problem.sync, problem.table) == ("main/view", "view")
    mend(db, problem)
    assert broken(db) == []


def test_view_written_by_others(db: livingdb.Database) -> None:
    """A head that says nothing of sources is not of the sync's making."""
    db.branch("main").derive("view", GROUPS, when="deferred")
    graph = db._graph
    row = graph.branch("view")
    head = graph.snapshots.at(row.head)
    intent = Intent((head,), (row,), "transaction", "", "x", "", {})
    commit_point = db._pipeline.commit_point
    with graph.stage() as staging:
        assert commit_point.store([commit_point.draft(intent, staging)], staging)
    (problem,) = broken(db)
    assert "not one that the sync has made" in problem.what
    mend(db, problem)
    assert broken(db) == []


def test_rounding_is_no_difference(db: livingdb.Database) -> None:
    """A sum of floats may be added up in any order."""
    db.branch("main").derive("view", GROUPS, when="immediate")
    value = state(db, "view")["view"][0]["f"]
    plant(db, "view", "view", {"f": value * (1 + 1e-13)})
    assert broken(db) == []
    plant(db, "view", "view", {"f": value * (1 + 1e-6)})
    assert len(broken(db)) == 1


def test_order_of_rows_is_no_difference(db: livingdb.Database) -> None:
    """Lists, and sums in rows whose key is a hash of them, depend on the order of what is read."""
    main = db.branch("main")
    main.update(
        "t", {"id": list(range(20)), "f": [(number * 7919 % 83) / 7 for number in range(20)]}
    )
    main.derive("sums", "SELECT sum(f) AS f FROM t GROUP BY v", when="immediate")
    main.derive("lists", "SELECT v, collect_list(s) AS l FROM t GROUP BY v", when="deferred")
    for number in range(8):
        main.update("t", {"id": [number], "f": [number / 9]})
    db.propagate()
    assert broken(db) == []
    first = state(db, "lists")["lists"][0]["l"]
    plant(db, "lists", "lists", {"l": first[::-1]})
    assert broken(db) == []
    plant(db, "lists", "lists", {"l": [*first[1:], "no"]})
    assert [problem.table for problem in broken(db)] == ["lists"]
    db.refresh("lists", full=True)
    row = state(db, "sums")["sums"][0]
    plant(db, "sums", "sums", {"_copy": 1})
    delete_first(db, "sums", "sums")
    # Under another copy's number it is the same row.
    assert broken(db) == []
    db.refresh("sums", full=True)
    plant(db, "sums", "sums", {"f": row["f"] + 1, "_copy": 2})
    (problem,) = broken(db)
    assert (problem.sync, problem.rows) == ("main/sums", 1)


@pytest.mark.parametrize("what", ["lazy", "clone"])
def test_wrong_stored_answer(db: livingdb.Database, what: str) -> None:
    """The recipe is right, and the tree that is kept of its answer is another's."""
    main = db.branch("main")
    if what == "lazy":
        main.derive("view", "SELECT id, v + 1 AS n FROM t", materialize="lazy", when="immediate")
    else:
        changes = [RenameColumn("t", "v", "w"), RenameTable("t", "view")]
        main.clone("view", transform=changes, sync="forward", when="deferred")
    graph = db._graph

    def version() -> Version:
        return tables_of(graph, graph.snapshots.at(graph.branch("view").head))["view"]

    other = graph.fold(version())
    write(db)
    graph.index.materialize(version().address, Tree(other))
    (problem,) = broken(db)
    assert (problem.sync, problem.table, problem.rows) == ("main/view", "view", 3)
    mend(db, problem)
    assert broken(db) == []
    assert len(main.table("t")) == len(db.branch("view").table("view"))


def test_a_view_that_begins_with_the_answer_of_another(db: livingdb.Database) -> None:
    """What the other one sets aside is not part of the answer."""
    aside = [livingdb.condition.accepted_values("v", [0, 1], action="quarantine")]
    main = db.branch("main")
    main.derive("first", "SELECT id, v FROM t", when="immediate", conditions=aside)
    main.derive("second", "SELECT id, v FROM t", when="immediate")
    assert set(state(db, "second")) == {"second"}
    assert len(db.branch("second").table("second")) == 20
    assert broken(db) == []


# --- schema syncs -------------------------------------------------------------------------------


@dataclass
class LensCase:
    changes: Any
    wrong: Mapping[str, object]
    table: str = "t"
    directions: tuple[str, ...] = ("forward", "both")


LENSES = {
    "add": LensCase(AddColumn("t", "n", "int", default=4), {"v": 99}),
    "computed": LensCase(AddColumn("t", "n", "bigint", computed="v + 1"), {"n": 99}),
    "drop": LensCase(DropColumn("t", "s"), {"v": 99}),
    "rename": LensCase(RenameColumn("t", "v", "w"), {"w": 99}),
    "table": LensCase(RenameTable("t", "t2"), {"v": 99}, "t2"),
    "create": LensCase(CreateTable("n", {"id": "int"}, "id"), {"v": 99}),
    "drop table": LensCase(DropTable("u"), {"v": 99}),
    "other table": LensCase(AddColumn("t", "n", "int"), {"v": 99}, "u"),
    "retype": LensCase(RetypeColumn("t", "v", "string", policy="reject"), {"v": "99"}),
    "clamp": LensCase(RetypeColumn("t", "v", "tinyint", policy="clamp"), {"v": 99}),
    "split": LensCase(SplitColumn("t", "s", ["s1", "s2"], separator="-"), {"s2": "no"}),
    "concat": LensCase(
        [
            SplitColumn("t", "s", ["s1", "s2"], separator="-"),
            ConcatColumns("t", ["s1", "s2"], "x", separator="-"),
        ],
        {"x": "n-o"},
    ),
    "decompose": LensCase(Decompose("t", {"a": ["v"], "b": ["f", "s"]}), {"v": 99}, "a"),
    "join": LensCase(
        [RenameColumn("u", n, f"u{n}") for n in ("id", "v", "f", "s")]
        + [JoinTables("t", "u", "w")],
        {"v": 99},
        "w",
    ),
    "normalize": LensCase(Normalize("t", ["v"], "vs"), {"v": 99}, "vs"),
    "normalize rows": LensCase(Normalize("t", ["v"], "vs"), {"f": 9.0}),
    "divide": LensCase(
        SplitTable("t", {"a": "v > 1", "b": "v <= 1 OR v IS NULL"}), {"f": 9.0}, "a"
    ),
    "divide strictly": LensCase(
        SplitTable("t", {"a": "v > 1", "b": "v <= 1"}, strict=True), {"f": 9.0}, "a"
    ),
    "union": LensCase(UnionTables(["t", "u"], "w", default="t"), {"f": 9.0}, "w"),
    "union by origin": LensCase(
        UnionTables(["t", "u"], "w", origin="o", default="t"), {"f": 9.0}, "w"
    ),
    "key": LensCase(
        [AddColumn("t", "k", "bigint", up="id + 1000", nullable=False), ChangeKey("t", ["k"])],
        {"f": 9.0},
    ),
    "constraint": LensCase(
        AddConstraint("t", name="c", check="v < 3", on_violation="quarantine"), {"v": -1}
    ),
    "repair": LensCase(
        AddConstraint("t", name="c", check="v < 3", on_violation="repair", repair={"v": "0"}),
        {"v": -1},
        directions=("forward",),
    ),
    "unique": LensCase(AddUnique("t", "f", on_violation="quarantine"), {"v": -1}),
    "loose": LensCase(DropConstraint("t", name="c", on_violation="quarantine"), {"v": -1}),
    "mask": LensCase(MaskColumn("t", "s", key="secret"), {"s": "no"}),
    "chain": LensCase(
        [AddColumn("t", "n", "int"), RetypeColumn("t", "v", "string"), DropColumn("t", "f")],
        {"v": "99"},
        directions=("forward",),
    ),
}


def evolve(db: livingdb.Database, name: str, direction: str) -> LensCase:
    case = LENSES[name]
    main = db.branch("main")
    if name == "loose":
        main.evolve(AddConstraint("t", name="c", check="v < 50"))
    main.evolve(case.changes, to="next", sync=direction)
    return case


@pytest.mark.parametrize(
    "lens",
    thinned([(n, d) for n, case in LENSES.items() for d in case.directions], every=6),
    ids="-".join,
)
def test_stale_schema_version(db: livingdb.Database, lens: tuple[str, str]) -> None:
    name, direction = lens
    case = evolve(db, name, direction)
    write(db)
    assert broken(db) == []
    before, source = state(db, "next"), state(db, "main")
    plant(db, "next", case.table, case.wrong)
    assert state(db, "next") != before
    found = broken(db)
    assert {problem.sync for problem in found} == {"main/next"}
    # A shared row is wrong where it shows: rows that refer to it have to refer to another.
    shown = {"t", "vs"} if name == "normalize" else {case.table}
    assert {problem.table for problem in found} == shown
    assert all(problem.rows and problem.keys for problem in found)
    mend(db, found[0])
    assert broken(db) == []
    assert state(db, "main") == source
    if name != "normalize":
        assert state(db, "next") == before
    assert db.sync("next").state == "active"
    write(db)
    assert broken(db) == []


def test_stale_old_side(db: livingdb.Database) -> None:
    """What keeps the old schema, and is written by the sync, is found and mended as well."""
    main = db.branch("main")
    main.evolve(RetypeColumn("t", "v", "string", policy="reject"), keep="kept", sync="reverse")
    main.upsert("t", {"id": [1], "v": ["7"]})
    assert broken(db) == []
    before = state(db, "kept")
    plant(db, "kept", "t", {"v": 99})
    (problem,) = broken(db)
    assert (problem.sync, problem.table, problem.rows) == ("kept/main", "t", 1)
    mend(db, problem)
    assert broken(db) == []
    assert state(db, "kept") == before


def test_either_side_of_two_can_be_believed(db: livingdb.Database) -> None:
    db.branch("main").evolve(AddColumn("t", "n", "int"), to="next", sync="both")
    plant(db, "next", "t", {"v": 99})
    db.refresh("main", full=True)
    assert broken(db) == []
    assert state(db, "main")["t"][0]["v"] == 99


def test_stale_branch_between(db: livingdb.Database) -> None:
    """Between the steps of one evolution are branches that nobody sees."""
    main = db.branch("main")
    main.evolve([AddColumn("t", "n", "int"), RenameTable("t", "s")], to="next", sync="both")
    graph = db._graph
    (hidden,) = [row for row in graph.branches.all() if is_hidden(row.name)]
    before = state(db, "next")
    plant_on(graph, hidden, "t", {"v": 99})
    found = broken(db)
    assert {problem.sync for problem in found} == {"main/next"}
    mend(db, found[0])
    assert broken(db) == []
    assert state(db, "next") == before


def test_stale_side_of_several_changes(db: livingdb.Database) -> None:
    changes = [AddColumn("t", "n", "int"), DropColumn("t", "f"), RenameColumn("t", "n", "m")]
    db.branch("main").evolve(changes, to="next", sync="both")
    before = state(db, "next")
    plant(db, "next", "t", {"v": 99})
    found = broken(db)
    assert {problem.sync for problem in found} == {"main/next"}
    mend(db, found[0])
    assert broken(db) == []
    assert state(db, "next") == before


def test_what_reads_a_mended_branch_follows(db: livingdb.Database) -> None:
    db.branch("main").evolve(AddColumn("t", "n", "int"), to="next", sync="both")
    following = db.branch("next")
    following.derive("view", GROUPS, when="immediate")
    following.evolve(DropColumn("t", "f"), to="last", sync="both")
    before = {name: state(db, name) for name in ("next", "view", "last")}
    plant(db, "next", "t", {"v": 99})
    assert {problem.sync for problem in broken(db)} == {"main/next", "next/last", "next/view"}
    db.refresh("next", full=True)
    db.refresh("last", full=True)
    assert broken(db) == []
    assert {name: state(db, name) for name in before} == before


def test_somebody_writes_while_it_is_mended(
    db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others write meanwhile, on either side, is merged and stays."""
    main = db.branch("main")
    main.evolve(AddColumn("t", "n", "int"), to="next", sync="both")
    plant(db, "next", "t", {"v": 99})
    written = []
    plain = realign_sync._Realignment.compare

    def compare(self: realign_sync._Realignment) -> None:
        plain(self)
        if not written:
            written.append(True)
            main.upsert("t", {"id": [5], "v": [500]})
            db.branch("next").upsert("t", {"id": [6], "v": [600]})

    monkeypatch.setattr(realign_sync._Realignment, "compare", compare)
    db.refresh("next", full=True)
    assert broken(db) == []
    assert db.sync("next").state == "active"
    for name in ("main", "next"):
        found = {row["id"]: row["v"] for row in state(db, name)["t"]}
        assert (found[0], found[5], found[6]) == (0, 500, 600)


@pytest.mark.parametrize("table", ["t", "u"])
def test_missing_table(db: livingdb.Database, table: str) -> None:
    db.branch("main").evolve(AddColumn("t", "n", "int"), to="next", sync="both")
    before = state(db, "next")
    graph = db._graph
    with graph.stage() as staging:
        move_to(graph, graph.branch("next"), {table: None}, staging)
    (problem,) = broken(db)
    assert (problem.table, problem.rows) == (table, 0)
    assert "missing" in problem.what
    mend(db, problem)
    assert broken(db) == []
    assert state(db, "next") == before


def test_what_cannot_be_mended_goes_on(db: livingdb.Database) -> None:
    """Nothing is promised that would not help, and what fails changes nothing."""
    db.branch("main").evolve(AddColumn("t", "n", "int"), to="next", sync="both")
    graph = db._graph
    with graph.stage() as staging:
        move_to(graph, graph.branch("main"), {"t": None}, staging)
    report = db.check(deep=True)
    assert report.is_damaged
    (problem,) = report.problems
    assert (problem.sync, problem.table, problem.mend) == ("main/next", "t", "")
    with pytest.raises(livingdb.Unsupported, match="evolve anew"):
        db.refresh("next", full=True)
    assert db.sync("next").state == "active"


def test_untouched_text_is_kept(db: livingdb.Database) -> None:
    """A text that the other side has in another form is in step, and stays what it is."""
    other = db.branch("main").clone("other")
    other.delete("t", list(range(1, 20)))
    other.upsert("t", {"id": [0], "s": ["07"]})
    other.evolve(RetypeColumn("t", "s", "bigint", policy="reject"), to="next", sync="both")
    assert broken(db) == []
    assert state(db, "next")["t"][0]["s"] == 7
    db.refresh("next", full=True)
    db.refresh("other", full=True)
    assert state(db, "other")["t"][0]["s"] == "07"


def test_column_of_columns_that_both_write(db: livingdb.Database) -> None:
    """Nothing tells whether it is as it should be, and that is said."""
    main = db.branch("main")
    change = RetypeColumn("t", "s", "bigint", up="v * 2", down="cast(s AS string)")
    main.evolve(change, to="next", sync="both")
    db.branch("next").upsert("t", {"id": [1], "v": [50]})
    report = db.check(deep=True)
    assert report.ok
    assert [one.sync for one in report.not_checked] == ["main/next"]
    assert "'s'" in report.not_checked[0].why


# --- clones -------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["immediate", "deferred"])
@pytest.mark.parametrize("table", ["t", "u"])
def test_stale_clone(db: livingdb.Database, when: str, table: str) -> None:
    transform = [MaskColumn("t", "s", key="secret"), DropColumn("t", "f")]
    db.branch("main").clone("masked", transform=transform, sync="forward", when=when)
    check_planted(
        db, "main/masked", "masked", table, lambda: plant(db, "masked", table, {"s": "seen"})
    )


@pytest.mark.parametrize("name", ["u", "t", "v"])
def test_tables_of_a_clone(db: livingdb.Database, name: str) -> None:
    """A table less, or one too many."""
    main = db.branch("main")
    main.clone("masked", transform=[DropColumn("t", "f")], sync="forward", when="deferred")
    before = state(db, "masked")
    graph = db._graph
    row = graph.branch("masked")
    held = tables_of(graph, graph.snapshots.at(row.head))
    with graph.stage() as staging:
        move_to(graph, row, {name: None if name in held else held["u"]}, staging)
    (problem,) = broken(db)
    assert (problem.sync, problem.table, problem.rows) == ("main/masked", name, 0)
    mend(db, problem)
    assert broken(db) == []
    assert state(db, "masked") == before


# --- what is set aside --------------------------------------------------------------------------


def test_quarantine(db: livingdb.Database) -> None:
    aside = [livingdb.condition.accepted_values("v", [0, 1, 2], action="quarantine")]
    main = db.branch("main")
    main.derive("view", "SELECT id, v FROM t", when="immediate", conditions=aside)
    main.derive("later", "SELECT id, v FROM t", when="deferred", conditions=aside)
    main.evolve(AddColumn("t", "n", "int"), to="next", sync="forward", conditions=aside)
    write(db)
    assert db.sync("view").quarantined().num_rows
    assert broken(db) == []
    for branch, table in (("view", "view"), ("later", "later"), ("next", "t")):
        before = state(db, branch)
        plant(db, branch, table, {"v": 1000})
        (problem,) = broken(db)
        assert (problem.sync, problem.table, problem.rows) == (f"main/{branch}", table, 1)
        mend(db, problem)
        assert broken(db) == []
        assert state(db, branch) == before


# --- what is not looked at ------------------------------------------------------------------------


def not_checked(db: livingdb.Database) -> dict[str, str]:
    report = db.check(deep=True)
    assert report.ok, report
    found = {one.sync: one.why for one in report.not_checked}
    assert all(f"not checked: {sync}: {why}" in str(report) for sync, why in found.items())
    return found


def test_stopped_syncs_promise_nothing(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.derive("view", GROUPS, when="immediate")
    few = [livingdb.condition.max_changed_share(0.01, action="hold")]
    main.derive("held", GROUPS, when="immediate", conditions=few)
    main.evolve(AddColumn("t", "n", "int"), to="next", sync="both")
    db.sync("view").detach()
    db.sync("next").detach()
    write(db)
    db.branch("next").delete("t", [1])
    found = not_checked(db)
    assert {sync: why.split(",")[0] for sync, why in found.items()} == {
        "main/view": "it is detached",
        "main/held": "it is held",
        "main/next": "it is detached",
    }


def test_what_cannot_be_computed_again(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.derive("now", "SELECT id, current_timestamp() AS at FROM t", when="deferred")
    main.derive("behind", GROUPS, when="on demand")
    db.trust = ["tests.unit.maintenance.test_check_syncs"]
    write(db)
    found = not_checked(db)
    assert set(found) == {"main/now", "main/behind"}
    assert "time" in found["main/now"]
    assert "behind" in found["main/behind"]


def train(tables: Mapping[str, Any], folder: str) -> bytes:
    return str(tables["t"].num_rows).encode()


def test_models_are_not_trained_again(tmp_path: Path) -> None:
    function = "tests.unit.maintenance.test_check_syncs:train"
    with livingdb.create(tmp_path / "db", engine="embedded", trust=[function]) as db:
        main = db.branch("main")
        main.create_table("t", {"id": "int"}, key="id")
        main.derive("model", model=function, when="deferred", tables=["t"])
        assert function in not_checked(db)["main/model"]


# --- healthy databases ---------------------------------------------------------------------------


def every_kind(db: livingdb.Database) -> None:
    main = db.branch("main")
    for name, case in VIEWS.items():
        title = f"view_{name}".replace(" ", "_")
        main.derive(title, case.sql, **case.options)
    main.derive("bag", "SELECT v, f FROM t", when="immediate")
    main.derive("upon", "SELECT n, count(*) AS m FROM view_having GROUP BY n", when="immediate")
    db.branch("view_deferred").clone(
        "lens", transform=[DropColumn("view_deferred", "f")], sync="forward"
    )
    main.derive("open", "SELECT id, v FROM t WHERE v > 1", sync="both")
    for name in ("split", "normalize", "decompose", "divide", "constraint", "mask", "key"):
        main.evolve(LENSES[name].changes, to=f"to_{name}", sync="both")
    main.clone("masked", transform=[MaskColumn("t", "s", key="k")], sync="forward", when="deferred")


def test_every_kind_together(db: livingdb.Database, tmp_path: Path) -> None:
    every_kind(db)
    write(db)
    report = db.check(deep=True)
    assert report.ok, report
    assert report.not_checked == []
    assert report.syncs == len(db.syncs())
    db.close()
    with livingdb.open(tmp_path / "db", engine="embedded") as again:
        again.branch("to_split").upsert("t", {"id": [0], "s1": ["x"], "s2": ["y-z"]})
        again.branch("open").upsert("open", {"id": [2], "v": [3]})
        write(again)
        report = again.check(deep=True)
        assert report.ok, report
        assert report.not_checked == []


def test_others_commit_meanwhile(db: livingdb.Database) -> None:
    """All heads are those of one moment, whatever comes after it."""
    main = db.branch("main")
    for number in range(3):
        main.derive(f"view{number}", GROUPS, when="immediate")
    told: list[tuple[int, int, str]] = []

    def progress(done: int, total: int, name: str) -> None:
        told.append((done, total, name))
        main.upsert("t", rows([done]))
        main.delete("t", [done + 10])

    report = db.check(deep=True, progress=progress)
    assert report.ok, report
    names = ["main/view0", "main/view1", "main/view2", ""]
    assert told == [(number, 3, name) for number, name in enumerate(names)]


def test_without_deep_nothing_is_said(db: livingdb.Database) -> None:
    db.branch("main").derive("view", GROUPS, when="immediate")
    plant(db, "view", "view", {"n": 77})
    report = db.check()
    assert report.ok
    assert report.syncs is None
    assert "syncs" not in str(report)


def test_damage_is_told_and_not_raised(db: livingdb.Database, tmp_path: Path) -> None:
    """What cannot be read cannot be compared: each sync says so, and advises nothing."""
    main = db.branch("main")
    main.derive("view", GROUPS, when="immediate")
    main.evolve(AddColumn("t", "n", "int"), to="next", sync="both")
    db.compact()
    db.close()
    for pack in (tmp_path / "db" / "packs").iterdir():
        data = bytearray(pack.read_bytes())
        for place in range(64, len(data) - 64, 16):
            data[place] ^= 0xFF
        pack.write_bytes(bytes(data))
    with livingdb.open(tmp_path / "db", engine="embedded") as again:
        report = again.check(deep=True)
        assert report.is_damaged
        told = {problem.sync for problem in report.problems if isinstance(problem, BrokenPromise)}
        assert told == {"main/view", "main/next"}
        assert not any(getattr(problem, "mend", "") for problem in report.problems)
