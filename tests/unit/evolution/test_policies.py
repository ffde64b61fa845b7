"""Values that do not fit: before a change, later on both kinds of syncs, and in merges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import livingdb
from livingdb.errors import DuplicateKey, InvalidData, MergeConflict, Unsupported
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    AddUnique,
    ConcatColumns,
    CreateTable,
    Decompose,
    DropConstraint,
    DropUnique,
    Normalize,
    RenameColumn,
    RetypeColumn,
    SchemaChange,
    SplitColumn,
)
from livingdb.evolution.lens_evaluator import _mapped_rows
from livingdb.evolution.plan import definitions_of
from livingdb.graph.graph import tables_of

ROWS = [
    {"id": 1, "a": "7", "x": 7.0, "n": 2},
    {"id": 2, "a": "x", "x": 7.9, "n": 0},
    {"id": 3, "a": None, "x": None, "n": None},
]
FITTING = [ROWS[0], ROWS[2]]
UNFIT: dict[str, tuple[SchemaChange, str]] = {
    "text to number": (RetypeColumn("t", "a", "int"), r"'t', column 'a': 'x' .* the key 2 .* int"),
    "fraction": (RetypeColumn("t", "x", "int"), r"'t', column 'x': 7.9 .* the key 2 .* int"),
    "cast": (AddColumn("t", "v", "int", up="cast(a AS int)"), r"column 'v': 'x' .* the key 2"),
    "computed": (AddColumn("t", "v", "double", computed="1 / n"), r"column 'v': 0 .* the key 2"),
    "implicit cast": (AddColumn("t", "v", "int", up="x"), r"column 'v': 7.9 .* the key 2"),
    "null": (AddColumn("t", "v", "int not null", up="n"), r"column 'v': null .* the key 3"),
    "length": (AddColumn("t", "v", "varchar(1)", up="concat(a, a)"), r"'v': '7' .* the key 1"),
    "split": (
        SplitColumn("t", "a", {"p": "int", "q": "string"}, {"p": "cast(a AS int)", "q": "a"}),
        r"column 'p': 'x' .* the key 2",
    ),
    "concat": (
        ConcatColumns("t", ["x", "n"], "v", up="x / n", type="double"),
        r"column 'v': n = 0, x = 7.9 .* the key 2",
    ),
    "not null part": (
        SplitColumn("t", "a", {"p": "string", "q": "string not null"}, separator="-"),
        r"column 'q': null .* the key 3",
    ),
}


@pytest.fixture
def main(tmp_path: Path) -> Iterator[livingdb.Branch]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as db:
        branch = db.branch("main")
        columns = {"id": "bigint", "a": "string", "x": "double", "n": "int"}
        branch.create_table("t", columns, key="id")
        branch.insert("t", ROWS)
        yield branch


def rows(branch: livingdb.Branch, table: str = "t") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = branch.table(table).to_arrow().to_pylist()
    return found


def column(branch: livingdb.Branch, name: str) -> dict[int, Any]:
    return {row["id"]: row[name] for row in rows(branch)}


# --- before the change -----------------------------------------------------------------------


@pytest.mark.parametrize("name", UNFIT)
def test_a_row_that_does_not_fit_is_named(main: livingdb.Branch, name: str) -> None:
    change, message = UNFIT[name]
    before = main.head
    seen = main.explain_evolution(change)
    assert len(seen.scans) == 1
    assert len(seen.failures) >= 1
    assert seen.failures[0] in str(seen)
    with pytest.raises(InvalidData, match=message) as caught:
        main.evolve(change)
    assert str(caught.value) in seen.failures
    assert main.head == before
    assert rows(main) == ROWS


def test_rows_that_fail_after_another_change(main: livingdb.Branch) -> None:
    changes = [AddColumn("t", "v", "string", up="a"), RetypeColumn("t", "v", "int")]
    (failure,) = main.explain_evolution(changes).failures
    assert "'v': 'x' in the row with the key 2" in failure
    main.update("t", {"id": [2], "a": ["8"]})
    assert main.explain_evolution(changes).failures == ()
    main.evolve(changes)
    assert column(main, "v") == {1: 7, 2: 8, 3: None}


def test_many_failures_are_cut_short(main: livingdb.Branch) -> None:
    main.insert("t", [{"id": n, "a": "?"} for n in range(10, 60)])
    assert len(main.explain_evolution(RetypeColumn("t", "a", "int")).failures) == 10


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("clamp", {1: 7, 2: 7, 3: None}),
        ("null", {1: 7, 2: None, 3: None}),
        ("truncate", {1: 7, 2: 7, 3: None}),
        ("quarantine", {1: 7, 3: None}),
    ],
)
def test_what_is_shown_by_each_policy(
    main: livingdb.Branch, policy: str, expected: dict[int, Any]
) -> None:
    main.evolve(RetypeColumn("t", "x", "int", policy=policy), keep="old", sync="both")
    assert column(main, "x") == expected
    assert len(main.table("t")) == len(expected)
    old = main.database.branch("old")
    assert rows(old) == ROWS
    old.update("t", {"id": [1, 2], "n": [5, 5]})
    assert column(old, "x") == {1: 7.0, 2: 7.9, 3: None}
    assert column(main, "x") == expected
    main.migrate()
    assert column(main, "x") == expected
    assert main.database.check(deep=True).problems == []


def test_truncation_refuses_what_it_cannot_cut(main: livingdb.Branch) -> None:
    main.insert("t", [{"id": 4, "x": 3e12}])
    with pytest.raises(InvalidData, match=r"3000000000000\.0 in the row with the key 4"):
        main.evolve(RetypeColumn("t", "x", "int", policy="truncate"))
    main.evolve(RetypeColumn("t", "x", "int", policy="clamp"))
    assert column(main, "x")[4] == 2**31 - 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (RetypeColumn("t", "a", "int", policy="clamp"), "only numbers can be clamped"),
        (RetypeColumn("t", "a", "int", policy=None), "choose one of"),
        (RetypeColumn("t", "id", "int", policy="null"), "one of reject, quarantine"),
        (AddColumn("t", "v", "int", policy="null"), "one of reject"),
        (AddColumn("t", "v", "int", computed="n", policy="null"), "one of reject, quarantine"),
        (AddColumn("t", "v", "int not null", up="n", policy="null"), "'v' is NOT NULL"),
        (AddColumn("t", "v", "int", up="n", policy="guess"), "choose one of"),
    ],
)
def test_policies_that_are_refused(
    main: livingdb.Branch, change: SchemaChange, message: str
) -> None:
    with pytest.raises(InvalidData, match=message):
        main.evolve(change)


def test_one_word_for_constraints_too(main: livingdb.Branch) -> None:
    given = AddConstraint("t", "low", "x < 7.5", policy="quarantine")
    assert given == AddConstraint("t", "low", "x < 7.5", on_violation="quarantine")
    with pytest.raises(InvalidData, match="give one of them"):
        AddConstraint("t", "low", "x < 7.5", on_violation="quarantine", policy="reject")
    with pytest.raises(InvalidData, match="choose one of"):
        AddConstraint("t", "low", "x < 7.5", policy="clamp")
    failures = main.explain_evolution(AddConstraint("t", "low", "x < 7.5")).failures
    assert failures == ("table 't': the row with the key 2 breaks the check 'low' (x < 7.5)",)
    main.evolve(given)
    assert set(column(main, "x")) == {1, 3}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (AddUnique, {"table": "t", "columns": "x"}),
        (DropUnique, {"table": "t", "columns": "x"}),
        (DropConstraint, {"table": "t", "name": "low"}),
    ],
)
def test_one_word_for_all_constraints(change: type[SchemaChange], words: dict[str, str]) -> None:
    given = change(**words, policy="quarantine")
    assert given == change(**words, on_violation="quarantine")
    assert "policy" not in given.to_json()
    assert SchemaChange.from_json(given.to_json()) == given
    with pytest.raises(InvalidData, match="give one of them"):
        change(**words, on_violation="quarantine", policy="reject")
    with pytest.raises(InvalidData, match="choose one of"):
        change(**words, policy="clamp")


def test_rows_that_are_not_unique_by_policy(main: livingdb.Branch) -> None:
    main.upsert("t", [{"id": 7, "n": 1}, {"id": 8, "n": 1}])
    with pytest.raises(InvalidData):
        main.evolve(AddUnique("t", "n", policy="reject"))
    main.evolve(AddUnique("t", "n", policy="quarantine"), keep="old", sync="both")
    shown = [n for n in column(main, "n").values() if n is not None]
    assert len(shown) == len(set(shown))
    assert main.table("t").get(8) is None
    assert main.database.branch("old").table("t").get(8)["n"] == 1


def test_a_condition_that_fails_is_not_satisfied(main: livingdb.Branch) -> None:
    partial = "1 / n > 0"
    with pytest.raises(InvalidData, match="the key 2 breaks the check 'share'"):
        main.evolve(AddConstraint("t", "share", partial))
    main.evolve(AddConstraint("t", "share", partial, policy="quarantine"), keep="old", sync="both")
    assert set(column(main, "n")) == {1, 3}
    with pytest.raises(InvalidData, match="the key 5 breaks the check 'share'"):
        main.insert("t", [{"id": 5, "n": 0}])
    main.database.branch("old").insert("t", [{"id": 6, "n": 0}])
    assert set(column(main, "n")) == {1, 3}


# --- later rows ------------------------------------------------------------------------------

LATER = {
    "retype": RetypeColumn("t", "x", "int"),
    "cast": AddColumn("t", "v", "int", up="cast(a AS int)"),
    "computed": AddColumn("t", "v", "double", computed="1 / n"),
}
BAD = {"id": 9, "a": "nine", "x": 9.5, "n": 0}


@pytest.mark.parametrize("name", LATER)
def test_a_later_row_is_refused_in_a_two_way_sync(main: livingdb.Branch, name: str) -> None:
    main.delete("t", [2])
    main.evolve(LATER[name], keep="old", sync="both")
    old = main.database.branch("old")
    heads = main.head, old.head
    with pytest.raises(InvalidData, match=r"'t', column '.' *: .* in the row with the key 9"):
        old.insert("t", [BAD])
    assert (main.head, old.head) == heads
    assert set(column(main, "n")) == {1, 3}


@pytest.mark.parametrize("name", LATER)
def test_a_later_row_detaches_a_one_way_sync(main: livingdb.Branch, name: str) -> None:
    db = main.database
    main.delete("t", [2])
    main.evolve(LATER[name], to="next", sync="forward")
    before = rows(db.branch("next"))
    main.insert("t", [BAD])
    (sync,) = db.syncs()
    assert sync.state == "detached"
    assert rows(db.branch("next")) == before
    assert any("the key 9" in alert.message for alert in db.alerts(state="open"))
    assert 9 in column(main, "n")


def test_a_later_row_detaches_a_clone_that_follows_later(main: livingdb.Branch) -> None:
    db = main.database
    main.delete("t", [2])
    change = RetypeColumn("t", "x", "int")
    clone = main.clone("other", transform=[change], sync="forward", when="deferred")
    main.insert("t", [{"id": 10, "x": 4.0}])
    db.propagate()
    main.insert("t", [BAD])
    db.propagate()
    assert db.sync("other").state == "detached"
    assert column(clone, "x") == {1: 7, 3: None, 10: 4}


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_quarantine_along_a_clone(main: livingdb.Branch, when: str) -> None:
    db = main.database
    change = RetypeColumn("t", "x", "int", policy="quarantine")
    clone = main.clone("other", transform=[change], sync="forward", when=when)
    main.insert("t", [BAD, {"id": 10, "x": 4.0}])
    db.propagate()
    assert column(clone, "x") == {1: 7, 3: None, 10: 4}
    main.update("t", {"id": [9, 10], "x": [9.0, 1.5]})
    db.propagate()
    assert column(clone, "x") == {1: 7, 3: None, 9: 9}
    assert db.sync("other").state == "active"


def test_a_key_in_quarantine_is_taken(main: livingdb.Branch) -> None:
    change = AddColumn("t", "v", "int", up="cast(a AS int)", policy="quarantine")
    main.evolve(change, keep="old", sync="both")
    assert column(main, "v") == {1: 7, 3: None}
    with pytest.raises(DuplicateKey, match="the key 2 on the other side"):
        main.insert("t", [{"id": 2, "a": "2"}])
    old = main.database.branch("old")
    old.update("t", {"id": [2], "a": ["22"]})
    assert column(main, "v") == {1: 7, 2: 22, 3: None}
    main.update("t", {"id": [2], "v": [5]})
    old.update("t", {"id": [2], "a": ["words"]})
    assert column(main, "v") == {1: 7, 2: 5, 3: None}
    assert main.database.check(deep=True).problems == []


def test_a_key_in_quarantine_is_taken_where_rows_there_all_fit_here(main: livingdb.Branch) -> None:
    """Every row of the kept schema fits the new one, which has more: they are not written over."""
    main.evolve(RetypeColumn("t", "n", "bigint", policy="quarantine"), keep="v1", sync="both")
    v1 = main.database.branch("v1")
    large = {"id": 9, "a": "b", "x": 1.0, "n": 1 << 40}
    main.insert("t", [large])
    assert 9 not in column(v1, "n")
    with pytest.raises(DuplicateKey, match="the key 9 on the other side"):
        v1.insert("t", [{**large, "n": 5}])
    v1.update("t", {"id": [1], "a": ["z"]})
    main.update("t", {"id": [9], "a": ["y"]})
    assert (column(main, "a")[1], column(main, "n")[9]) == ("z", 1 << 40)
    assert 9 not in column(v1, "a")


def test_a_view_of_rows_in_quarantine_is_made_anew(main: livingdb.Branch) -> None:
    main.derive("counted", sql="SELECT count(*) AS n FROM t", when="immediate")
    main.evolve(RetypeColumn("t", "x", "int", policy="quarantine"))
    view = main.database.branch("counted")
    assert view.table("counted").to_arrow().to_pylist() == [{"n": len(main.table("t"))}]


# --- merges, reverts -------------------------------------------------------------------------


def test_a_change_that_ours_has_no_place_for_is_a_conflict(main: livingdb.Branch) -> None:
    main.delete("t", [2])
    dev = main.clone("dev")
    dev.evolve(RetypeColumn("t", "x", "int"))
    main.insert("t", [BAD])
    with pytest.raises(MergeConflict, match="the key 9"):
        main.database.merge("dev", into="main")
    main.update("t", {"id": [9], "x": [9.0]})
    main.database.merge("dev", into="main")
    assert column(main, "x") == {1: 7, 3: None, 9: 9}


def test_a_policy_is_merged_with_its_change(main: livingdb.Branch) -> None:
    dev = main.clone("dev")
    dev.evolve(RetypeColumn("t", "x", "int", policy="null"))
    main.insert("t", [BAD])
    with pytest.raises(MergeConflict, match="the column 'x' with the key 9 has no place"):
        main.database.merge("dev", into="main")
    main.update("t", {"id": [9], "x": [9.0]})
    main.database.merge("dev", into="main")
    assert column(main, "x") == {1: 7, 2: None, 3: None, 9: 9}


def test_a_revert_shows_what_was_hidden(main: livingdb.Branch) -> None:
    made = main.evolve(RetypeColumn("t", "x", "int", policy="quarantine"))
    main.update("t", {"id": [1], "x": [5]})
    main.revert(made.id)
    assert column(main, "x") == {1: 5.0, 2: 7.9, 3: None}


def test_an_open_transaction_does_not_lose_a_value(main: livingdb.Branch) -> None:
    with pytest.raises(livingdb.TransactionConflict, match="'x'"), main.transaction() as tx:
        tx.upsert("t", [{"id": 4, "x": 4.5}])
        main.evolve(RetypeColumn("t", "x", "int", policy="null"))


# --- what is not portable --------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        AddColumn("t", "v", "string", computed="array_join(array(a), ',')"),
        AddColumn("t", "v", "string", up="array_join(array(a), ',')"),
        AddConstraint("t", check="array_contains(array(a), '7')"),
        AddConstraint("t", check="n > 0", on_violation="repair", repair="size(array(a))"),
        CreateTable("u", {"id": "bigint", "v": "string"}, "id", computed={"v": "hex(id)"}),
    ],
    ids=["computed", "up", "check", "repair", "create"],
)
def test_what_may_differ_between_engines_is_refused(
    main: livingdb.Branch, change: SchemaChange
) -> None:
    before = main.head
    with pytest.raises(Unsupported, match="engine"):
        main.explain_evolution(change)
    with pytest.raises(Unsupported, match="engine"):
        main.evolve(change)
    with pytest.raises(Unsupported, match="engine"):
        main.clone("other", transform=[change])
    assert main.head == before


# --- declared limits -------------------------------------------------------------------------


def test_text_that_is_too_long_is_refused(main: livingdb.Branch) -> None:
    main.sql("CREATE TABLE p (id BIGINT PRIMARY KEY, code VARCHAR(3), kind CHAR(2) DEFAULT 'ab')")
    main.insert("p", [{"id": 1, "code": "é日x"}])
    for values, message in (
        ({"id": 2, "code": "abcd"}, r"'p': column 'code': 'abcd' .* the key 2 .* varchar\(3\)"),
        ({"id": 3, "kind": "abc"}, r"'p': column 'kind': 'abc' .* the key 3 .* varchar\(2\)"),
    ):
        with pytest.raises(InvalidData, match=message):
            main.insert("p", [values])
    with pytest.raises(InvalidData, match="the default 'abc' does not fit"):
        main.create_table("q", {"id": "int", "v": "varchar(2)"}, "id", defaults={"v": "abc"})
    with pytest.raises(Unsupported, match="a limit is for the text of a column"):
        main.create_table("q", {"id": "int", "v": "array<varchar(2)>"}, "id")
    assert rows(main, "p") == [{"id": 1, "code": "é日x", "kind": "ab"}]


def test_limits_are_widened_and_narrowed(main: livingdb.Branch) -> None:
    main.evolve(AddColumn("t", "v", "varchar(3)", up="concat(a, '..')"))
    with pytest.raises(InvalidData, match="does not fit"):
        main.update("t", {"id": [1], "v": ["long text"]})
    with pytest.raises(InvalidData, match=r"is varchar\(3\) already"):
        main.evolve(RetypeColumn("t", "v", "varchar(3)"))
    assert main.explain_evolution(RetypeColumn("t", "v", "varchar(9)")).scans == ()
    main.evolve(RetypeColumn("t", "v", "varchar(9)"), keep="short", sync="both")
    short = main.database.branch("short")
    with pytest.raises(InvalidData, match="does not fit"):
        main.update("t", {"id": [1], "v": ["long text"]})
    main.update("t", {"id": [1], "v": ["abc"]})
    assert column(short, "v")[1] == "abc"
    with pytest.raises(InvalidData, match=r"'v': 'abc' .* the key 1 .* varchar\(2\)"):
        short.clone("s").evolve(RetypeColumn("t", "v", "varchar(2)"))
    main.evolve(RetypeColumn("t", "v", "varchar(2)", policy="truncate"), keep="mid", sync="both")
    assert column(main, "v") == {1: "ab", 2: "x.", 3: None}
    assert column(short, "v")[1] == "abc"
    main.clone("free").evolve(RetypeColumn("t", "v", "string"))
    main.database.branch("free").update("t", {"id": [1], "v": ["long text"]})


def test_limits_in_sql(main: livingdb.Branch) -> None:
    main.sql("ALTER TABLE t ADD COLUMN v VARCHAR(3)")
    with pytest.raises(InvalidData, match=r"'v': 'abcd' .* varchar\(3\)"):
        main.sql("UPDATE t SET v = 'abcd' WHERE id = 1")
    main.sql("ALTER TABLE t ALTER COLUMN v TYPE VARCHAR(4)")
    main.sql("UPDATE t SET v = 'abcd' WHERE id = 1")
    with pytest.raises(InvalidData, match=r"'v': 'abcd' .* varchar\(2\)"):
        main.sql("ALTER TABLE t ALTER COLUMN `v` SET DATA TYPE CHAR(2)")
    main.sql("ALTER TABLE t ALTER COLUMN v TYPE STRING")
    main.sql("UPDATE t SET v = 'long text' WHERE id = 1")


def test_limits_stay_with_their_columns(main: livingdb.Branch) -> None:
    main.evolve(AddColumn("t", "v", "varchar(3)"))
    main.evolve([RenameColumn("t", "v", "w"), Decompose("t", {"l": ["w"], "r": ["a", "x", "n"]})])
    with pytest.raises(InvalidData, match="column 'w': 'abcd'"):
        main.update("l", {"id": [1], "w": ["abcd"]})


def test_a_limit_is_merged(main: livingdb.Branch) -> None:
    main.evolve(AddColumn("t", "v", "string"))
    dev = main.clone("dev")
    dev.evolve(RetypeColumn("t", "v", "varchar(3)"))
    main.update("t", {"id": [1], "v": ["abcd"]})
    with pytest.raises(MergeConflict, match="abcd"):
        main.database.merge("dev", into="main")
    main.update("t", {"id": [1], "v": ["abc"]})
    main.database.merge("dev", into="main")
    with pytest.raises(InvalidData, match="does not fit"):
        main.update("t", {"id": [1], "v": ["abcd"]})


def test_a_decimal_keeps_to_its_digits(main: livingdb.Branch) -> None:
    main.evolve(AddColumn("t", "v", "decimal(4,2)", up="x"))
    with pytest.raises(InvalidData, match="'v'"):
        main.update("t", {"id": [1], "v": [123.0]})
    with pytest.raises(InvalidData, match=r"column 'v': Decimal\('7.90'\) .* decimal\(3,0\)"):
        main.evolve(RetypeColumn("t", "v", "decimal(3,0)"))


@pytest.mark.parametrize(
    ("repair", "said"),
    [("concat(a, 'x')", "gives string"), ("true", "gives boolean"), ("date'2024-01-01'", "date")],
)
def test_a_repair_is_of_its_columns_kind(main: livingdb.Branch, repair: str, said: str) -> None:
    change = AddConstraint("t", "some", "n > 0", on_violation="repair", repair=repair)
    named = {"n": repair}
    for one in (change, AddConstraint("t", "s", "n > x", on_violation="repair", repair=named)):
        with pytest.raises(InvalidData, match=rf"'t', column 'n' is int, and .*{said}"):
            main.explain_evolution(one)
    main.evolve(AddConstraint("t", "some", "n > 0", on_violation="repair", repair="1.0"))
    with pytest.raises(InvalidData, match=rf"'t', column 'n' is int, and .*{said}"):
        main.evolve(DropConstraint("t", "some", on_violation="repair", repair=repair))


def test_a_null_that_is_read_names_its_row(main: livingdb.Branch) -> None:
    """Rows of composed lenses are looked at before; a recipe of old might still give one."""
    main.evolve(AddColumn("t", "m", "int", up="n + 1"))
    graph = main._graph
    tables = tables_of(graph, main._head())
    lens = AddColumn("t", "v", "int not null", up="m").plan(definitions_of(graph, tables))
    rows = _mapped_rows(graph.versions, lens, tables, "t", tables["t"].address)
    assert rows is not None
    said = r"table 't', column 'v': null in the row with the key 3, but the column is NOT NULL"
    with pytest.raises(InvalidData, match=said):
        rows.to_arrow(["v"])
    with pytest.raises(InvalidData, match=said):
        rows.lookup(rows.schema.key_codec.encode([pa.array([1, 3])]), ["v"])


def test_a_limit_is_kept_to_by_repairs_and_lookups(main: livingdb.Branch) -> None:
    main.evolve(AddColumn("t", "s", "varchar(3)"))
    repair = AddConstraint("t", not_null="s", on_violation="repair", repair="concat('n', a, 'mm')")
    main.evolve(repair, keep="loose", sync="both")
    assert main.table("t").to_arrow().to_pylist() == []
    loose = main.database.branch("loose")
    loose.upsert("t", [{"id": 4, "a": ""}, {"id": 5, "a": "too long"}])
    assert main.table("t").to_arrow()["s"].to_pylist() == ["nmm"]
    assert main.database.check(deep=True).problems == []
    loose.create_table("known", {"id": "bigint", "s": "varchar(2)"}, key="id")
    loose.create_table("same", {"id": "bigint", "a": "varchar(9)"}, key="id")
    with pytest.raises(
        InvalidData, match=r"'s' is varchar\(3\) in 't' and varchar\(2\) in 'known'"
    ):
        loose.explain_evolution(Normalize("t", ["s"], into="known"))
    parts = {"t": ["x", "n", "s"], "same": ["a"]}
    with pytest.raises(InvalidData, match=r"'a' is string in 't' and varchar\(9\) in 'same'"):
        loose.explain_evolution(Decompose("t", parts))
