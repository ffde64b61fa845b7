"""Data frames to tables and back."""

from __future__ import annotations

import pandas
import sqlalchemy as sa

import livingdb

FRAME = pandas.DataFrame(
    {
        "id": [1, 2, 3],
        "city": ["Oslo", None, "Bergen"],
        "at": pandas.to_datetime(["2026-01-01", "2026-01-02", None]),
        "moment": pandas.to_datetime(["2026-01-01", "2026-01-02", None], utc=True),
        "amount": [1.5, 2.5, None],
        "paid": [True, False, True],
    }
)


def test_frames_are_written_appended_replaced_and_read(path, engine):
    assert FRAME.to_sql("orders", engine, index=False) == 3
    pandas.testing.assert_frame_equal(pandas.read_sql_table("orders", engine), FRAME)
    assert FRAME.to_sql("orders", engine, index=False, if_exists="append") == 3
    query = sa.text("SELECT count(*) AS n, sum(amount) AS total FROM orders WHERE id <= :most")
    found = pandas.read_sql(query, engine, params={"most": 2})
    assert found.to_dict("records") == [{"n": 4, "total": 8.0}]
    replaced = FRAME.set_index("id")[["city"]]
    replaced.to_sql("orders", engine, if_exists="replace", dtype={"city": sa.String(10)})
    read = pandas.read_sql("SELECT id, city FROM orders", engine, index_col="id")
    assert read["city"].tolist() == ["Oslo", None, "Bergen"]
    with livingdb.open(path) as db:
        assert str(db.branch("main").table("orders").schema.field("id").type) == "int64"


def test_a_frame_goes_into_a_table_that_is_there(path, engine):
    with livingdb.open(path) as db:
        db.branch("main").create_table("prices", {"id": "bigint", "price": "decimal(9,2)"}, "id")
    given = pandas.DataFrame({"id": [1, 2], "price": [1.5, 2.25]})
    given.to_sql("prices", engine, index=False, if_exists="append")
    with livingdb.open(path) as db:
        assert str(db.branch("main").table("prices").get(2)["price"]) == "2.25"
