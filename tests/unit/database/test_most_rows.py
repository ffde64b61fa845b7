"""`most` of a query: how many of its rows are wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

import livingdb


def test_rows_that_are_wanted(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint"}, key="id")
        main.insert("t", [{"id": number} for number in range(5)])
        wanted = (None, 0, 2, 9, 10**30)
        assert len(main.log(limit=10**30)) == len(main.log())
        with main.transaction() as tx:
            for place in (main, main.head, tx):
                counts = [len(list(place.sql("SELECT id FROM t", most=n))) for n in wanted]
                assert counts == [5, 0, 2, 5, 5]
                for wrong in (-1, "2", 1.5, True):
                    with pytest.raises(livingdb.InvalidData, match=r"most .*not negative"):
                        place.sql("SELECT id FROM t", most=wrong)  # type: ignore[arg-type]
