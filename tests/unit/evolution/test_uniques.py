"""AddUnique and DropUnique: what is refused, what is hidden, and what both sides see."""

from __future__ import annotations

from pathlib import Path

import pytest

import livingdb
from livingdb import Branch, Database
from livingdb.engines.tree_parts import build_part, collect_parts
from livingdb.errors import (
    DuplicateKey,
    DuplicateValue,
    IllegalSync,
    InvalidData,
    MergeConflict,
    NotFound,
    TransactionConflict,
    Unsupported,
)
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    AddUnique,
    ChangeKey,
    CreateTable,
    Decompose,
    DropColumn,
    DropConstraint,
    DropUnique,
    JoinTables,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SplitTable,
    UnionTables,
)
from livingdb.tables import ingest
from livingdb.tables.schema import TableSchema

Row = dict[str, object]


@pytest.fixture
def db(tmp_path: Path) -> Database:
    made = livingdb.create(tmp_path / "shop.ldb", author="ada")
    columns = {"id": "bigint", "email": "string", "town": "string", "n": "int"}
    made.branch("main").create_table("people", columns, "id")
    return made


def person(number: int, email: str | None, town: str = "Oslo", n: int = 0) -> Row:
    return {"id": number, "email": email, "town": town, "n": n}


def rows(branch: Branch, table: str = "people") -> list[Row]:
    found: list[Row] = branch.table(table).to_arrow().to_pylist()
    return found


def emails(branch: Branch) -> dict[object, object]:
    return {row["id"]: row["email"] for row in rows(branch)}


@pytest.fixture
def main(db: Database) -> Branch:
    found = db.branch("main")
    found.insert("people", [person(1, "a@x"), person(2, "b@x"), person(3, None), person(4, None)])
    return found


# --- records ----------------------------------------------------------------------------------


def test_a_schema_without_unique_constraints_is_recorded_as_before() -> None:
    schema = TableSchema.of({"id": "bigint", "a": "string"}, "id")
    assert set(schema.to_json()) == {"columns", "key", "foreign_keys", "next_id"}
    unique = TableSchema.of({"id": "bigint", "a": "string"}, "id", unique=["a"])
    assert unique.to_json()["uniques"] == [["unique_1", ["a"]]]
    assert TableSchema.from_json(unique.to_json()) == unique


def test_a_creation_without_unique_constraints_is_recorded_as_before() -> None:
    change = CreateTable("t", {"id": "int"}, "id")
    assert "unique" not in change.to_json()


@pytest.mark.parametrize(
    ("unique", "error"),
    [
        (["id"], InvalidData),
        (["a", "a"], InvalidData),
        ([("a", "b"), ("b", "a")], InvalidData),
        ([()], InvalidData),
        (["c"], NotFound),
        (["tags"], Unsupported),
        ("a", InvalidData),
    ],
)
def test_what_cannot_be_unique(unique: object, error: type[Exception]) -> None:
    columns = {"id": "bigint", "a": "string", "b": "int", "tags": "array<string>"}
    with pytest.raises(error):
        TableSchema.of(columns, "id", unique=unique)  # type: ignore[arg-type]


# --- writes -----------------------------------------------------------------------------------


def test_a_value_that_another_row_has_is_refused_with_all_that_is_known(main: Branch) -> None:
    main.evolve(AddUnique("people", "email"))
    with pytest.raises(DuplicateValue, match=r"keys 1 and 9 both have 'a@x' in \(email\)") as said:
        main.insert("people", [person(9, "a@x")])
    assert (said.value.table, said.value.columns) == ("people", ("email",))
    assert (said.value.value, said.value.keys) == ("a@x", (1, 9))
    assert isinstance(said.value, DuplicateKey)


def test_two_rows_of_one_write_may_not_share_a_value(main: Branch) -> None:
    main.evolve(AddUnique("people", "email"))
    with pytest.raises(DuplicateValue):
        main.insert("people", [person(8, "new"), person(9, "new")])
    main.insert("people", [person(8, None), person(9, None)])


def test_rows_may_swap_values_and_take_those_that_are_free(main: Branch) -> None:
    main.evolve(AddUnique("people", "email"))
    main.update("people", {"id": [1, 2], "email": ["b@x", "a@x"]})
    with main.transaction() as tx:
        tx.delete("people", [1])
        tx.insert("people", [person(5, "b@x")])
    assert emails(main) == {2: "a@x", 3: None, 4: None, 5: "b@x"}


def test_an_update_of_other_columns_is_free(main: Branch) -> None:
    main.evolve(AddUnique("people", ["email", "town"]))
    main.update("people", {"id": [1], "n": [7]})
    main.insert("people", [person(9, "a@x", "Bergen")])
    with pytest.raises(DuplicateValue, match=r"\('a@x', 'Oslo'\) in \(email, town\)"):
        main.update("people", {"id": [9], "town": ["Oslo"]})


def test_columns_of_the_key_may_be_part_of_it(db: Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"a": "int", "b": "int", "c": "int"}, ["a", "b"], unique=[("b", "c")])
    main.insert("t", [{"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "c": 1}])
    with pytest.raises(DuplicateValue, match=r"keys \(1, 1\) and \(3, 1\)"):
        main.insert("t", [{"a": 3, "b": 1, "c": 1}])


def test_floats_that_are_equal_are_one_value(db: Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "int", "x": "double"}, "id", unique=["x"])
    main.insert("t", [{"id": 1, "x": 0.0}, {"id": 2, "x": float("nan")}])
    for value in (-0.0, float("nan")):
        with pytest.raises(DuplicateValue):
            main.insert("t", [{"id": 3, "x": value}])


def test_sql_merge_update_and_insert_are_held_to_it(main: Branch) -> None:
    main.evolve(AddUnique("people", "email"))
    for text in (
        "INSERT INTO people VALUES (9, 'a@x', 'Oslo', 0)",
        "UPDATE people SET email = 'same'",
        "MERGE INTO people t USING (SELECT 9 AS id, 'b@x' AS email) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, email) VALUES (s.id, s.email)",
    ):
        with pytest.raises(DuplicateValue):
            main.sql(text)


def test_sql_creates_unique_constraints(db: Database) -> None:
    main = db.branch("main")
    main.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a STRING UNIQUE, b INT, UNIQUE (a, b), "
        "CONSTRAINT only_b UNIQUE (b))"
    )
    with pytest.raises(DuplicateValue, match="only_b"):
        main.sql("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 1)")
    with pytest.raises(Unsupported, match="nulls are distinct"):
        main.sql("CREATE TABLE u (id INT PRIMARY KEY, a INT, UNIQUE NULLS NOT DISTINCT (a))")


# --- concurrency ------------------------------------------------------------------------------


def test_the_later_of_two_transactions_that_give_one_value_conflicts(main: Branch) -> None:
    main.evolve(AddUnique("people", "email"))
    first, second = main.transaction(), main.transaction()
    first.insert("people", [person(8, "new")])
    second.insert("people", [person(9, "new")])
    first.commit()
    with pytest.raises(TransactionConflict, match=r"keys 8 and 9 both have 'new' in \(email\)"):
        second.commit()


def test_transactions_on_both_sides_of_a_sync_conflict(db: Database, main: Branch) -> None:
    main.evolve(AddUnique("people", "email"), keep="v1", sync="both")
    for first, second in ((main, db.branch("v1")), (db.branch("v1"), main)):
        number = len(rows(main)) + 10
        one, other = first.transaction(), second.transaction()
        one.insert("people", [person(number, f"new {number}")])
        other.insert("people", [person(number + 1, f"new {number}")])
        one.commit()
        with pytest.raises(TransactionConflict, match=f"new {number}"):
            other.commit()
    assert rows(main) == rows(db.branch("v1"))


def test_a_value_that_was_there_before_is_no_conflict_with_others(main: Branch) -> None:
    main.evolve(AddUnique("people", "email"))
    mine = main.transaction()
    mine.insert("people", [person(9, "a@x")])
    main.insert("people", [person(8, "other")])
    with pytest.raises(DuplicateValue):
        mine.commit()


def test_a_transaction_that_began_before_the_constraint_conflicts(main: Branch) -> None:
    mine = main.transaction()
    mine.insert("people", [person(9, "a@x")])
    main.evolve(AddUnique("people", "email"))
    with pytest.raises(TransactionConflict):
        mine.commit()


def test_branches_that_give_one_value_conflict_and_the_policy_decides(
    db: Database, main: Branch
) -> None:
    main.evolve(AddUnique("people", "email"))
    for name in ("dev", "other"):
        main.clone(name)
        db.branch(name).insert("people", [person(8, name), person(20, "both")])
    main.insert("people", [person(9, "both")])
    with pytest.raises(MergeConflict, match=r"keys 9 and 20 both have 'both'") as said:
        db.merge("dev", "main")
    assert [row["id"] for row in said.value.conflicts["people"].to_pylist()] == [9, 20]
    db.merge("dev", "main", on_conflict="ours")
    assert {8: "dev", 9: "both"}.items() <= emails(main).items()
    assert 20 not in emails(main)
    db.merge("other", "main", on_conflict="theirs")
    assert {8: "other", 20: "both"}.items() <= emails(main).items()
    assert 9 not in emails(main)
    assert db.check(deep=True).ok


def test_a_row_whose_value_the_policy_gave_away_is_as_in_the_base(
    db: Database, main: Branch
) -> None:
    main.evolve(AddUnique("people", "email"))
    main.clone("dev")
    main.update("people", {"id": [1], "email": ["new"]})
    db.branch("dev").update("people", {"id": [2], "email": ["new"]})
    db.merge("dev", "main", on_conflict="theirs")
    assert emails(main) == {1: "a@x", 2: "new", 3: None, 4: None}


def test_a_merge_takes_the_constraint_and_refuses_rows_that_break_it(
    db: Database, main: Branch
) -> None:
    main.clone("dev")
    db.branch("dev").evolve(AddUnique("people", "email"))
    main.insert("people", [person(9, "a@x")])
    with pytest.raises(MergeConflict, match="AddUnique"):
        db.merge("dev", "main")
    main.update("people", {"id": [9], "email": ["free"]})
    db.merge("dev", "main")
    with pytest.raises(DuplicateValue):
        main.insert("people", [person(10, "free")])


def test_equal_constraints_of_two_branches_are_one(db: Database, main: Branch) -> None:
    main.clone("dev")
    for branch in (main, db.branch("dev")):
        branch.evolve(AddUnique("people", "email", name="one"))
    db.merge("dev", "main")
    with pytest.raises(DuplicateValue, match="'one'"):
        main.insert("people", [person(9, "a@x")])


def test_constraints_of_two_branches_meet_whatever_they_are_called(
    db: Database, main: Branch
) -> None:
    dev = main.clone("dev")
    main.evolve([AddUnique("people", "email"), RenameColumn("people", "town", "city")])
    dev.evolve([AddUnique("people", ["town", "n", "id"]), AddUnique("people", "email", name="one")])
    db.merge("dev", "main")
    groups = sorted(main.table("people").unique.values())
    assert groups == [("city", "n", "id"), ("email",)]
    other = main.clone("other")
    (name,) = (name for name, group in other.table("people").unique.items() if group == ("email",))
    other.evolve(DropUnique("people", name=name))
    main.evolve(RenameColumn("people", "email", "mail"))
    db.merge("other", "main")
    assert list(main.table("people").unique.values()) == [("city", "n", "id")]


# --- both sides -------------------------------------------------------------------------------


def test_rows_that_share_a_value_refuse_the_constraint(main: Branch) -> None:
    main.insert("people", [person(9, "b@x")])
    with pytest.raises(DuplicateValue, match="keys 2 and 9 both have 'b@x'"):
        main.evolve(AddUnique("people", "email"))


def test_the_old_side_cannot_give_the_new_one_a_value_twice(db: Database, main: Branch) -> None:
    main.evolve(AddUnique("people", "email"), keep="v1", sync="both")
    with pytest.raises(DuplicateValue, match=r"'main'.*keys 1 and 9 both have 'a@x'"):
        db.branch("v1").insert("people", [person(9, "a@x")])
    db.branch("v1").insert("people", [person(9, "c@x")])
    assert rows(main) == rows(db.branch("v1"))
    assert db.check(deep=True).ok


def test_without_a_policy_the_old_side_cannot_lead(main: Branch) -> None:
    with pytest.raises(IllegalSync, match="quarantine"):
        main.evolve(AddUnique("people", "email", on_violation=None), keep="v1", sync="both")
    main.evolve(AddUnique("people", "email", on_violation=None), keep="v1", sync="reverse")


def test_dropped_it_still_holds_for_the_old_side(db: Database, main: Branch) -> None:
    main.evolve(AddUnique("people", "email", name="one"))
    main.evolve(DropUnique("people", name="one"), keep="v1", sync="both")
    with pytest.raises(DuplicateValue, match="'v1'"):
        main.insert("people", [person(9, "a@x")])
    main.insert("people", [person(9, "c@x")])
    assert rows(main) == rows(db.branch("v1"))
    with pytest.raises(NotFound, match="has no unique constraint"):
        main.evolve(DropUnique("people", "email"))


def test_quarantine_shows_the_row_with_the_smallest_key(db: Database, main: Branch) -> None:
    main.insert("people", [person(7, "a@x"), person(8, "a@x")])
    main.evolve(AddUnique("people", "email", on_violation="quarantine"), keep="v1", sync="both")
    old = db.branch("v1")
    assert emails(main) == {1: "a@x", 2: "b@x", 3: None, 4: None}
    old.insert("people", [person(0, "b@x"), person(9, "c@x")])
    assert emails(main) == {0: "b@x", 1: "a@x", 3: None, 4: None, 9: "c@x"}
    old.delete("people", [1])
    assert emails(main) == {0: "b@x", 3: None, 4: None, 7: "a@x", 9: "c@x"}
    old.update("people", {"id": [0], "email": [None]})
    assert emails(main) == {0: None, 2: "b@x", 3: None, 4: None, 7: "a@x", 9: "c@x"}
    assert db.check(deep=True).ok


def test_a_row_that_gives_up_its_value_lets_the_next_be_seen(db: Database, main: Branch) -> None:
    main.insert("people", [person(7, "a@x"), person(8, "a@x")])
    main.evolve(AddUnique("people", "email", on_violation="quarantine"), keep="v1", sync="both")
    main.update("people", {"id": [1], "email": ["new"]})
    assert emails(main) == {1: "new", 2: "b@x", 3: None, 4: None, 7: "a@x"}
    assert emails(db.branch("v1"))[8] == "a@x"
    with pytest.raises(DuplicateKey, match="not seen here"):
        main.insert("people", [person(8, "free")])
    with pytest.raises(DuplicateValue, match="keys 8 and 20"), main.transaction() as tx:
        tx.delete("people", [7])
        tx.insert("people", [person(20, "a@x")])
    assert db.check(deep=True).ok


def test_a_value_that_goes_to_a_smaller_key_shows_nobody_who_waits(
    db: Database, main: Branch
) -> None:
    main.evolve(AddUnique("people", "email", on_violation="quarantine"), keep="v1", sync="both")
    old = db.branch("v1")
    old.insert("people", [person(6, "c@x"), person(9, "c@x")])
    main.upsert("people", [person(5, "c@x"), person(6, "d@x")])
    assert emails(main) == {1: "a@x", 2: "b@x", 3: None, 4: None, 5: "c@x", 6: "d@x"}
    assert emails(old) == emails(main) | {9: "c@x"}
    with pytest.raises(DuplicateValue):  # 9 would be seen in its place
        main.upsert("people", [person(5, "e@x"), person(10, "c@x")])
    main.upsert("people", [person(5, "e@x")])
    assert emails(main) == emails(old)
    assert db.check(deep=True).ok


def test_a_dropped_constraint_with_quarantine_hides_rows_from_the_old_side(
    db: Database, main: Branch
) -> None:
    main.evolve(AddUnique("people", "email"))
    main.evolve(DropUnique("people", "email", on_violation="quarantine"), keep="v1", sync="both")
    old = db.branch("v1")
    main.insert("people", [person(0, "a@x"), person(9, "b@x")])
    assert emails(old) == {0: "a@x", 2: "b@x", 3: None, 4: None}
    old.delete("people", [2])
    assert emails(old) == {0: "a@x", 3: None, 4: None, 9: "b@x"}
    assert emails(main) == {0: "a@x", 1: "a@x", 3: None, 4: None, 9: "b@x"}
    assert db.check(deep=True).ok


def test_a_one_way_clone_that_cannot_follow_is_detached(db: Database, main: Branch) -> None:
    main.evolve(AddUnique("people", "email"), to="strict", sync="forward")
    main.insert("people", [person(9, "a@x")])
    (sync,) = db.syncs()
    assert sync.state == "detached"
    assert "a@x" in sync.reason
    assert emails(db.branch("strict")) == {1: "a@x", 2: "b@x", 3: None, 4: None}


def test_it_is_reverted_and_picked(db: Database, main: Branch) -> None:
    main.clone("dev")
    main.evolve(AddUnique("people", "email"))
    db.branch("dev").cherry_pick("main")
    with pytest.raises(DuplicateValue):
        db.branch("dev").insert("people", [person(9, "a@x")])
    main.revert(main.head.id)
    main.insert("people", [person(9, "a@x")])
    assert emails(main)[9] == "a@x"


def test_a_drop_is_not_reverted_over_rows_that_share_a_value(db: Database, main: Branch) -> None:
    main.evolve(AddUnique("people", "email"))
    main.evolve(DropUnique("people", "email"))
    dropped = main.head.id
    main.insert("people", [person(9, "a@x")])
    with pytest.raises(DuplicateValue):
        main.revert(dropped)
    main.delete("people", [9])
    main.revert(dropped)
    with pytest.raises(DuplicateValue):
        main.insert("people", [person(9, "a@x")])


# --- with other changes -----------------------------------------------------------------------


def test_renames_follow_and_the_index_below_still_serves(db: Database, main: Branch) -> None:
    main.evolve(AddUnique("people", "email"))
    changes = [
        RenameColumn("people", "email", "mail"),
        RenameTable("people", "persons"),
        AddColumn("persons", "vat", "double", default=0.5),
    ]
    main.evolve(changes)
    with pytest.raises(DuplicateValue, match=r"'persons'.*in \(mail\)"):
        main.insert("persons", {"id": [9], "mail": ["a@x"]})
    main.insert("persons", {"id": [9], "mail": ["c@x"]})
    with pytest.raises(DuplicateValue):
        main.insert("persons", {"id": [10], "mail": ["c@x"]})


@pytest.mark.parametrize(
    "change",
    [
        DropColumn("people", "email"),
        MaskColumn("people", "email", "null"),
        RetypeColumn("people", "email", "int", up="length(email)"),
        Normalize("people", ["email"], into="emails"),
        AddConstraint("people", not_null="email", on_violation="repair", repair="'?'"),
    ],
)
def test_what_would_break_it_is_refused_by_name(main: Branch, change: object) -> None:
    main.evolve(AddUnique("people", "email", name="one_each"))
    with pytest.raises(InvalidData, match=r"one_each.*drop that first"):
        main.evolve(change)  # type: ignore[arg-type]


def test_names_of_constraints_are_told_apart(main: Branch) -> None:
    main.evolve(AddUnique("people", "email", name="one"))
    assert main.table("people").unique == {"one": ("email",)}
    with pytest.raises(InvalidData, match="unique constraint 'one' already"):
        main.evolve(AddConstraint("people", "one", check="n >= 0"))
    with pytest.raises(NotFound, match="see DropUnique"):
        main.evolve(DropConstraint("people", "one"))


def test_tables_that_are_joined_or_united_drop_it_first(db: Database, main: Branch) -> None:
    main.create_table("more", {"id": "bigint", "email": "string"}, "id", unique=["email"])
    main.create_table("most", {"id": "bigint", "email": "string"}, "id")
    with pytest.raises(InvalidData, match="unique"):
        main.evolve(UnionTables(["more", "most"], into="all"))
    with pytest.raises(InvalidData, match="unique"):
        main.evolve(JoinTables("more", "people", into="all"))


def test_parts_of_a_table_keep_it(db: Database, main: Branch) -> None:
    main.evolve(AddUnique("people", "email"))
    main.clone("split")
    split = db.branch("split")
    split.evolve(SplitTable("people", {"few": "n < 5", "many": "n >= 5"}), keep="s1", sync="both")
    with pytest.raises(DuplicateValue):
        split.insert("few", [person(9, "a@x")])
    with pytest.raises(DuplicateValue, match="'s1'"):
        split.insert("many", [person(9, "a@x", n=9)])
    main.evolve(Decompose("people", {"mails": ["email"], "rest": ["town", "n"]}))
    with pytest.raises(DuplicateValue, match="'mails'"):
        main.insert("mails", {"id": [9], "email": ["a@x"]})
    apart = Decompose("few", {"a": ["email"], "b": ["town", "n"]})
    with pytest.raises(InvalidData, match="would be apart"):
        split.evolve([AddUnique("few", ["email", "n"]), apart])


def test_it_outlives_another_key(main: Branch) -> None:
    main.evolve([AddUnique("people", "email"), ChangeKey("people", ["id", "town"])])
    with pytest.raises(DuplicateValue):
        main.insert("people", [person(9, "a@x")])


def test_rows_that_come_as_trees_are_held_to_it(db: Database, main: Branch) -> None:
    main.evolve(AddUnique("people", "email"))

    def load(given: list[Row]) -> None:
        with main.transaction() as tx:
            definition, url = tx.work.definition("people"), db._graph.place.files.url
            arrays = ingest.whole_rows(definition.schema, given)
            part = build_part(url, definition.to_json(), iter([arrays]))
            tx.replace("people", collect_parts(url, [part]))

    with pytest.raises(DuplicateValue, match="keys 1 and 2"):
        load([person(1, "same"), person(2, "same")])
    load([person(1, "x"), person(2, "y")])
    with pytest.raises(DuplicateValue):
        main.insert("people", [person(3, "y")])
