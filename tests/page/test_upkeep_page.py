"""Storage and tuning on the page: what is due in words, and advice that is done and undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.page.visitor import Visitor
from tests.unit.maintenance.tuning.lab import ROWS, made, observe

import livingdb
from livingdb.maintenance.tuning.actions.relayout import Relayout
from livingdb.maintenance.tuning.gain import Gain
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings

READS = {
    "read": {"whole": 100.0},
    "rows": {"whole": 100.0 * ROWS},
    "microseconds": {"whole": 1e6},
}


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[livingdb.Database]:
    """A table whose leaves are small for what is asked of it; a trial says so without a clock."""
    monkeypatch.setattr(Relayout, "measure", lambda self, evidence, seconds: Gain(1.0, 0.5))
    with made(tmp_path / "lab.ldb") as lab:
        observe(lab, READS)
        yield lab


@pytest.fixture
def server(db: livingdb.Database) -> Iterator[Server]:
    with Server(db, ServerSettings(port=0, upkeep=False)) as running:
        yield running


def test_advice_is_told_with_its_evidence_done_and_undone(
    visitor: Visitor, db: livingdb.Database
) -> None:
    visitor.go("#/advice")
    visitor.see(".nothing", "Nothing to advise yet")
    visitor.press("Look for advice")
    told = visitor.see("main", "relayout t: leaves of 32,768 rows")
    assert "100 reads of all rows, 20,000 each" in told
    assert "500 ms less when it was tried · costs " in told
    assert db.advice(1).state == "advised", "nothing is done unasked"
    visitor.press("Do it")
    visitor.see(".state.applied")
    assert db.advice(1).state == "applied"
    assert visitor.axe() == []
    visitor.press("Undo")
    visitor.see(".state.undone")
    visitor.see("main", " · by hand")
    assert db.advice(1).state == "undone"


def test_storage_tells_where_the_bytes_are_and_what_is_due_in_words(visitor: Visitor) -> None:
    visitor.go("#/storage")
    told = visitor.see("main", "Due now")
    assert "Clear files away (sweep): files left behind" in told
    bars = "return [...document.querySelectorAll('.bars')].map((one) => one.innerText)"
    tables, branches = visitor.until(lambda: visitor.run(bars))
    assert tables.split()[:2] == ["Tables", "t"]
    assert branches.split()[:2] == ["Branches", "main"]
