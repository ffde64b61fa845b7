"""The views of a star schema follow commits of all kinds without asking an engine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests import ssb_data as ssb

from livingdb.database.branch import Branch
from livingdb.database.database import Database
from livingdb.derivation.query_answers import EmbeddedAnswers

ROWS = 3000


def rows_of(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, (tuple(row.values()) for row in table.to_pylist())))


def assert_views_are_their_queries(db: Database, branch: Branch) -> None:
    for name, query in ssb.QUERIES.items():
        view = db.branch(name).table(name).to_arrow()
        assert rows_of(view) == rows_of(branch.sql(query).to_arrow()), name


def test_views_follow_without_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db, known = ssb.warehouse(tmp_path / "ssb.ldb", ROWS)
    with db:
        main = db.branch("main")
        for name, query in ssb.QUERIES.items():
            main.derive(name, sql=query, when="immediate")
        asked = []
        with monkeypatch.context() as patch:
            answer = EmbeddedAnswers.answer
            patch.setattr(EmbeddedAnswers, "answer", lambda *a: asked.append(a) or answer(*a))
            for turn in range(3):
                ssb.new_rows(main, ROWS, turn, known)()
                ssb.mixed_rows(main, ROWS, turn, known)()
        assert not asked
        customers = main.table("customer").to_arrow()
        moved = pa.array(np.roll(customers.column("c_region").to_pylist(), 1))
        place = customers.column_names.index("c_region")
        main.upsert("customer", customers.set_column(place, "c_region", moved).slice(0, 40))
        ssb.new_rows(main, ROWS, 7, known)()
        assert_views_are_their_queries(db, main)
