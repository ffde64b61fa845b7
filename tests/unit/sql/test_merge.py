"""MERGE INTO."""

from __future__ import annotations

import pytest
from tests.unit.sql.twin import BranchScope, Database

from livingdb.errors import DuplicateKey, InvalidData, LivingDBError, NotFound

COLUMNS = {"id": "bigint", "a": "int", "b": "string"}


@pytest.fixture
def main() -> BranchScope:
    database = Database()
    database.create("t", COLUMNS, "id", [{"id": i, "a": i, "b": "old"} for i in range(6)])
    database.create(
        "s",
        {**COLUMNS, "op": "string"},
        "id",
        [{"id": i, "a": i * 10, "b": "new", "op": "du"[i % 2]} for i in range(3, 9)],
    )
    return database.branch()


def rows(scope: BranchScope) -> list[tuple[int, int | None, str | None]]:
    return [(row["id"], row["a"], row["b"]) for row in scope.all("t")]


def test_all_kinds_of_clauses(main: BranchScope) -> None:
    result = main.sql("""
        MERGE INTO t USING s ON t.id = s.id
        WHEN MATCHED AND op = 'd' THEN DELETE
        WHEN MATCHED THEN UPDATE SET a = s.a + t.a
        WHEN NOT MATCHED AND a > 60 THEN INSERT (id, a) VALUES (id, s.a)
        WHEN NOT MATCHED BY SOURCE AND t.a = 0 THEN UPDATE SET b = 'zero'
        WHEN NOT MATCHED BY SOURCE AND a = 1 THEN DELETE
    """)
    assert rows(main) == [
        (0, 0, "zero"),
        (2, 2, "old"),
        (3, 33, "old"),
        (5, 55, "old"),
        (7, 70, None),
        (8, 80, None),
    ]
    assert result.changed == 7
    assert result.snapshot is not None


def test_stars_take_columns_by_name(main: BranchScope) -> None:
    main.sql("""
        MERGE INTO t AS x USING (SELECT b, id AS ID, a FROM s WHERE id > 4) AS y ON x.id = y.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
    """)
    assert rows(main)[4:] == [(4, 4, "old")] + [(i, i * 10, "new") for i in range(5, 9)]


def test_the_first_clause_that_applies_wins(main: BranchScope) -> None:
    main.sql("""
        MERGE INTO t USING s ON t.id = s.id
        WHEN MATCHED AND t.id = 3 THEN UPDATE SET b = 'first'
        WHEN MATCHED AND t.id <= 4 THEN UPDATE SET b = 'second'
        WHEN MATCHED THEN DELETE
    """)
    assert rows(main)[3:] == [(3, 3, "first"), (4, 4, "second")]


def test_values_are_computed_only_where_the_clause_applies(main: BranchScope) -> None:
    main.sql("""
        MERGE INTO t USING s ON t.id = s.id
        WHEN MATCHED AND s.id <> 4 THEN UPDATE SET a = 100 / (s.id - 4)
    """)
    assert [a for _, a, _ in rows(main)] == [0, 1, 2, -100, 4, 100]


def test_two_source_rows_for_one_target_row(main: BranchScope) -> None:
    with pytest.raises(InvalidData, match="several rows"):
        main.sql("MERGE INTO t USING s ON t.id < 1 WHEN MATCHED THEN UPDATE SET a = s.a")
    assert rows(main)[0] == (0, 0, "old")
    assert main.sql("MERGE INTO t USING s ON t.id < 1 WHEN MATCHED THEN DELETE").changed == 1


def test_keys_that_move(main: BranchScope) -> None:
    main.sql("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = t.id + 1")
    assert [i for i, _, _ in rows(main)] == [0, 1, 2, 4, 5, 6]
    with pytest.raises(DuplicateKey):
        main.sql("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 0")


def test_a_with_clause_and_defaults(main: BranchScope) -> None:
    main.sql("""
        WITH n AS (SELECT 50 AS id) MERGE INTO t USING n ON t.id = n.id
        WHEN NOT MATCHED THEN INSERT (id, a) VALUES (id, DEFAULT)
    """)
    assert rows(main)[-1] == (50, None, None)


def test_a_version_as_source(main: BranchScope) -> None:
    main.sql("DELETE FROM t WHERE id > 1")
    main.sql("""
        MERGE INTO t USING t VERSION AS OF 'main~1' AS old ON t.id = old.id
        WHEN NOT MATCHED THEN INSERT *
    """)
    assert len(rows(main)) == 6


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN INSERT *", InvalidData, "INSERT"),
        ("MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
         InvalidData, "no column 'a'"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET nope = 1",
         NotFound, "nope"),
        ("MERGE INTO t USING nope ON t.id = nope.id WHEN MATCHED THEN DELETE", NotFound, "nope"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (1, 2)",
         InvalidData, "2 values for 1"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = s.op",
         InvalidData, "'a' is int"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (77)",
         DuplicateKey, "key"),
        ("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = b",
         InvalidData, "several tables"),
    ],
)  # fmt: skip
def test_refused(main: BranchScope, text: str, kind: type[LivingDBError], words: str) -> None:
    before = rows(main)
    with pytest.raises(kind, match=words):
        main.sql(text)
    assert rows(main) == before
