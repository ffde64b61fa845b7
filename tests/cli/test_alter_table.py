"""ALTER TABLE on the command line: `livingdb sql` and `livingdb evolve`."""

from __future__ import annotations

from pathlib import Path

import pytest

import livingdb
from livingdb.cli.app import run

BOTH = "ALTER TABLE visits CHANGE count visitors BIGINT, ADD COLUMN guests INT DEFAULT 1 FIRST"


def visits(shop: Path) -> tuple[list[str], str]:
    """The columns of the table, and where main is."""
    with livingdb.open(shop) as db:
        main = db.branch("main")
        return main.table("visits").schema.names, main.head.id


def test_sql_takes_several_clauses(shop: Path) -> None:
    assert run(["--db", str(shop), "sql", f"{BOTH} SYNC BOTH KEEP old"]) == 0
    assert visits(shop)[0] == ["guests", "city", "day", "visitors"]
    with livingdb.open(shop) as db:
        assert db.branch("old").table("visits").schema.names == ["city", "day", "count"]
        rows = db.branch("main").table("visits").to_arrow().to_pylist()
        assert [row["visitors"] for row in rows] == [7]


def test_evolve_takes_several_statements(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each sees what those before it make, in SQL or JSON; together they are one change."""
    json = '{"change": "RenameColumn", "table": "visits", "name": "day", "to": "on"}'
    later = "ALTER TABLE visits MODIFY guests BIGINT AFTER `on`"
    assert run(["--db", str(shop), "evolve", "--explain", BOTH, json, later]) == 0
    assert "looks at the rows" not in capsys.readouterr().out
    before = visits(shop)[1]
    assert run(["--db", str(shop), "evolve", BOTH, json, later, "--keep", "old"]) == 0
    assert visits(shop)[0] == ["city", "on", "guests", "visitors"]
    with livingdb.open(shop) as db:
        assert db.branch("main").head.parents[0] == before


@pytest.mark.parametrize("command", ["sql", "evolve"])
@pytest.mark.parametrize(
    ("clause", "told", "code"),
    [
        ("SET TBLPROPERTIES ('a' = 'b')", "SET TBLPROPERTIES is not possible", 5),
        ("DROP COLUMN guests CASCADE", "CASCADE", 5),
        ("ADD COLUMN more INT banana", "'banana' is not understood", 5),
        ("DROP COLUMN nothing", "'nothing'", 3),
    ],
)
def test_what_is_refused_changes_nothing(
    shop: Path, capsys: pytest.CaptureFixture[str], command: str, clause: str, told: str, code: int
) -> None:
    before = visits(shop)
    assert run(["--db", str(shop), command, f"{BOTH}, {clause}"]) == code
    error = capsys.readouterr().err
    assert told in error
    assert len(error.splitlines()) == 1
    assert visits(shop) == before
