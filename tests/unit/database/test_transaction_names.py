"""Inside a transaction every name means what it meant: its own branch, others, tags, schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import livingdb
from livingdb import Branch, Database, Transaction, TransactionConflict

COLUMNS = {"id": "bigint", "v": "bigint"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Two tables of four rows; the value of a row is its number."""
    with livingdb.create(tmp_path_factory.mktemp("names") / "db", engine="embedded") as db:
        main = db.branch("main")
        for name in ("t", "u"):
            main.create_table(name, COLUMNS, key="id")
            main.insert(name, {"id": range(4), "v": range(4)})
        yield db
        assert db.check().problems == []


@pytest.fixture
def pair(shared: Database) -> tuple[Branch, Branch]:
    """Two branches of their own for every test: the one that is written, and another."""
    number = len(shared.branches())
    main = shared.branch("main")
    return main.clone(f"one{number}"), main.clone(f"two{number}")


def total(tx: Transaction | Branch, table: str) -> int:
    (row,) = tx.sql(f"SELECT coalesce(sum(v), 0) AS s FROM {table}").to_arrow().to_pylist()
    return int(row["s"])


def put(branch: Branch | Transaction, number: int, value: int, table: str = "t") -> None:
    branch.upsert(table, {"id": [number], "v": [value]})


def test_its_own_branch_is_what_it_sees(pair: tuple[Branch, Branch]) -> None:
    one, _ = pair
    with one.transaction() as tx:
        put(tx, 0, 100)
        put(one, 1, 1_000)
        assert total(tx, "t") == 106
        for name in (f"{one}.t", f"t VERSION AS OF '{one}'", f"t VERSION AS OF '{one}@now'"):
            assert total(tx, name) == 106, name
        assert total(tx, "t TIMESTAMP AS OF 'now'") == 106
        assert total(tx, f"t VERSION AS OF '{one}~0'") == 6, "its snapshot, without its writes"
        assert total(tx, f"u VERSION AS OF '{one}~1'") == 0, "from its snapshot, not from the head"
        joined = (
            f"SELECT count(*) AS n FROM t JOIN {one}.t AS same ON t.id = same.id AND t.v = same.v"
        )
        assert tx.sql(joined).to_arrow().to_pylist() == [{"n": 4}]
    assert total(one, "t") == 1_105


def test_other_names_stay_where_they_were(pair: tuple[Branch, Branch]) -> None:
    one, two = pair
    db = one.database
    db.tag(f"tag-{one}", two)
    tx = one.transaction()
    assert total(tx, f"{two}.t") == 6
    put(two, 0, 100)
    db.drop_tag(f"tag-{one}")
    db.tag(f"tag-{one}", two)
    third = two.clone(f"third-{two}")
    assert [total(tx, f"{two}.t"), total(tx, f"t VERSION AS OF 'tag-{one}'")] == [6, 6]
    assert total(tx, f"u VERSION AS OF '{two}~1'") == 0
    with pytest.raises(livingdb.NotFound):
        total(tx, f"`{third}`.t")
    db.drop_branch(str(third))
    db.rename_branch(str(two), f"renamed-{two}")
    assert total(tx, f"{two}.t") == 6
    assert tx.sql("SELECT count(*) AS n FROM livingdb.log").to_arrow()["n"].to_pylist() == [5]
    put(one, 3, 50)
    assert tx.sql("SELECT count(*) AS n FROM livingdb.log").to_arrow()["n"].to_pylist() == [5]
    tx.rollback()


def test_its_schema_is_in_information_schema(pair: tuple[Branch, Branch]) -> None:
    one, two = pair
    names = "SELECT table_name FROM information_schema.tables WHERE table_schema = '{}' ORDER BY 1"

    def listed(tx: Transaction, branch: Branch) -> list[str]:
        found: list[str] = tx.sql(names.format(branch)).to_arrow()["table_name"].to_pylist()
        return found

    with one.transaction() as tx:
        tx.create_table("new", COLUMNS, key="id")
        one.create_table("theirs", COLUMNS, key="id")
        assert listed(tx, one) == ["new", "t", "u"]
        assert listed(tx, two) == ["t", "u"]
        two.create_table("later", COLUMNS, key="id")
        assert listed(tx, two) == ["t", "u"]


def test_the_root_of_what_it_sees(pair: tuple[Branch, Branch]) -> None:
    one, two = pair
    with one.transaction() as tx:
        assert tx.table("t").root() == one.table("t").root()
        put(tx, 9, 9)
        tx.create_table("new", COLUMNS, key="id")
        tx.insert("new", {"id": [1], "v": [1]})
        roots = [tx.table(name).root() for name in ("t", "new")]
    assert roots == [one.table(name).root() for name in ("t", "new")]
    assert two.table("t").root() not in roots


def test_a_statement_sees_one_moment(
    pair: tuple[Branch, Branch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody writes after the statement began: its own branch by name is where it was."""
    from livingdb.database.sql_scope import BranchScope

    one, _ = pair
    real = BranchScope.find_branch

    def raced(scope: BranchScope, name: str) -> str | None:
        put(one, 0, 500)
        return real(scope, name)

    monkeypatch.setattr(BranchScope, "find_branch", raced)
    text = f"SELECT sum(t.v - same.v) AS d FROM t JOIN {one}.t AS same ON t.id = same.id"
    assert one.sql(text).to_arrow()["d"].to_pylist() == [0]


# --- serializable --------------------------------------------------------------------------------

Read = Callable[[Transaction, Branch], object]

READS: dict[str, Read] = {
    "head": lambda tx, other: total(tx, f"{other}.t"),
    "head by ref": lambda tx, other: total(tx, f"t VERSION AS OF '{other}'"),
    "steps": lambda tx, other: total(tx, f"t VERSION AS OF '{other}~0'"),
    "heads": lambda tx, other: tx.sql("SHOW BRANCHES").to_arrow(),
    "one row": lambda tx, other: tx.sql(f"SELECT v FROM {other}.t WHERE id = 1").to_arrow(),
}


@pytest.mark.parametrize("how", READS)
def test_write_skew_through_other_branches_is_a_conflict(
    pair: tuple[Branch, Branch], how: str
) -> None:
    """Each reads what the other writes: one of them would have seen the other's write."""
    open_ones = [branch.transaction(isolation="serializable") for branch in pair]
    for tx, other in zip(open_ones, pair[::-1], strict=True):
        READS[how](tx, other)
        put(tx, 1, 77)
    open_ones[0].commit()
    before = pair[1].head
    with pytest.raises(TransactionConflict, match="serializable"):
        open_ones[1].commit()
    assert pair[1].head == before


def test_reads_of_what_nobody_changed_are_no_conflict(pair: tuple[Branch, Branch]) -> None:
    one, two = pair
    tx = one.transaction(isolation="serializable")
    tx.sql(f"SELECT v FROM {two}.t WHERE id = 1")
    total(tx, f"{two}.u")
    total(tx, f"u VERSION AS OF '{two.head.id}'")
    tx.sql("SELECT * FROM information_schema.columns")
    put(tx, 1, 77)
    put(two, 3, 88)
    tx.commit()
    assert total(one, "t") == 82


@pytest.mark.parametrize("act", ["drop", "schema", "made"])
def test_what_it_listed_has_changed(pair: tuple[Branch, Branch], act: str) -> None:
    one, two = pair
    acts: dict[str, Callable[[], Any]] = {
        "drop": lambda: one.database.drop_branch(str(two)),
        "schema": lambda: two.create_table("later", COLUMNS, key="id"),
        "made": lambda: two.clone(f"made-{two}"),
    }
    tx = one.transaction(isolation="serializable")
    tx.sql("SELECT * FROM information_schema.tables")
    put(tx, 1, 77)
    acts[act]()
    with pytest.raises(TransactionConflict, match="meanwhile"):
        tx.commit()


@pytest.mark.parametrize("is_changed", [False, True])
def test_who_only_reads_saw_one_moment(pair: tuple[Branch, Branch], is_changed: bool) -> None:
    """What was read of its own branch is gone when it reads another one."""
    one, two = pair
    tx = one.transaction(isolation="serializable")
    assert total(tx, "t") == 6
    put(one, 1, 77, "t" if is_changed else "u")
    put(two, 1, 77)
    assert total(tx, f"{two}.t") == 82
    if is_changed:
        with pytest.raises(TransactionConflict, match="serializable"):
            tx.commit()
    else:
        tx.commit()


def test_a_branch_that_moves_between_the_check_and_the_commit(
    pair: tuple[Branch, Branch], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = pair
    tx = one.transaction(isolation="serializable")
    total(tx, f"{two}.t")
    put(tx, 1, 77)
    commit_point = one.database._pipeline.commit_point
    real, raced = commit_point.store, []

    def store(*asked: Any) -> Any:
        if not raced:
            raced.append(True)
            put(two, 1, 77)
        return real(*asked)

    monkeypatch.setattr(commit_point, "store", store)
    with pytest.raises(TransactionConflict, match="serializable"):
        tx.commit()


def test_a_view_that_was_read_and_then_written(pair: tuple[Branch, Branch]) -> None:
    """Its own commit moves the view; that is not somebody else's."""
    one, _ = pair
    view = f"v{len(one.database.branches())}"
    one.derive(view, sql="SELECT id, v FROM t WHERE v > 1", when="immediate", key="id")
    with one.transaction(isolation="serializable") as tx:
        assert total(tx, view) == 5
        put(tx, 1, 77)
    assert total(one, view) == 82
    late = one.transaction(isolation="serializable")
    assert total(late, view) == 82
    put(late, 0, 0, "u")
    put(one, 2, 200)
    with pytest.raises(TransactionConflict, match="serializable"):
        late.commit()
