"""`livingdb tune`: advice as a table, applied and undone by number."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.telling import tell
from tests.unit.maintenance.tuning.lab import ROWS, made, observe

import livingdb
from livingdb.maintenance.tuning.actions.relayout import Relayout
from livingdb.maintenance.tuning.gain import Gain


def test_advice_is_told_applied_and_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Relayout, "measure", lambda self, evidence, seconds: Gain(1.0, 0.5))
    path = tmp_path / "db"
    with made(path) as db:
        observe(db, {"read": {"whole": 100.0}, "rows": {"whole": 100.0 * ROWS}})
    told = [line.strip() for line in tell("tune", db=path).out.splitlines() if line.strip()]
    header, why = told[0], told[-1]
    assert header.split() == ["number", "state", "action", "predicted", "measured", "price"]
    assert why.startswith("1: 100 reads of all rows, 20,000 each; leaves have 4,096 rows;")
    (advised,) = tell("-o", "json", "tune", db=path).json
    assert advised["action"] == "relayout t: leaves of 32,768 rows"
    assert (advised["state"], advised["measured_share"]) == ("advised", 0.5)
    (applied,) = tell("-o", "json", "tune", "--apply", db=path).json
    assert (applied["state"], applied["measured_share"]) == ("applied", 0.5)
    number = str(applied["number"])
    (undone,) = tell("-o", "json", "tune", "--undo", number, db=path).json
    assert (undone["state"], undone["outcome"]) == ("undone", "by hand")
    assert tell("tune", "--undo", number, db=path).code == 4
    assert "nothing that was observed" in tell("tune", db=path).out


@pytest.mark.parametrize(
    ("text", "found"),
    [("800000", 800_000), ("5GB", 5_000_000_000), ("2 KiB", 2048), ("2iB", None), ("none", "")],
)
def test_a_budget_has_units(tmp_path: Path, text: str, found: object) -> None:
    path = tmp_path / "db"
    made(path).close()
    told = tell("-o", "json", "tune", "--budget", text, db=path)
    assert told.code == (0 if found is not None else 5)
    if told.code == 0:
        assert told.json["bytes"] == (found or None)


@pytest.mark.parametrize(
    "options",
    [
        ("--undo", "1", "--apply"),
        ("--undo", "1", "--seconds", "5"),
        ("--mode", "auto", "--apply"),
        ("--budget", "5GB", "--undo", "1"),
    ],
)
def test_options_that_would_be_left_out_are_refused(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "db"
    made(path).close()
    told = tell("tune", *options, db=path)
    assert (told.code, "does not go with" in told.err) == (2, True)
    with livingdb.open(path) as db:
        assert (db.tuning, db.budget().bytes) == ("observe", None)


def test_a_number_that_no_advice_has(tmp_path: Path) -> None:
    path = tmp_path / "db"
    made(path).close()
    assert tell("tune", "--undo", str(1 << 70), db=path).code == 3
