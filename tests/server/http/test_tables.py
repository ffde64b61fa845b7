"""Rows over HTTP: their types survive, pages are of one snapshot, and writes can be conditional."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from tests.server.http.conftest import ARROW, Served

from livingdb.tables.rows import RowSet

ROW = {
    "id": "9007199254740993",
    "city": "Zürich\u0000",
    "amount": "12345678.90",
    "share": "NaN",
    "day": "2026-11-15",
    "time": "2026-11-15T10:00:00.000001Z",
    "moment": "2026-11-15T10:00:00",
    "data": "AAH/",
    "tags": ["a", None],
    "place": {"x": 1, "y": "-9007199254740993"},
    "counts": [["k", 1]],
    "is_new": True,
}


def rows_of(answer: httpx.Response) -> pa.Table:
    assert answer.status_code == 200, answer.text
    return pa.ipc.open_stream(answer.content).read_all()


def test_types_survive_the_way_there_and_back(olga: httpx.Client, served: Served) -> None:
    empty = dict.fromkeys(ROW) | {"id": -5}
    made = olga.post("/v1/rows/upsert", params={"table": "orders"}, json={"rows": [ROW, empty]})
    assert made.status_code == 200, made.text
    stored = served.db.branch("main").table("orders").get(9007199254740993)
    assert stored is not None
    assert stored["amount"] == decimal.Decimal("12345678.90")
    assert stored["time"] == datetime.datetime(2026, 11, 15, 10, 0, 0, 1, datetime.UTC)
    assert stored["data"] == b"\x00\x01\xff"
    assert stored["share"] != stored["share"]
    for row in (ROW, empty):
        key = {"table": "orders", "key": str(row["id"])}
        assert olga.get("/v1/row", params=key).json()["row"] == row
    page = olga.get("/v1/rows", params={"table": "orders", "where": "id > 1000"}).json()
    assert page["rows"] == [ROW]
    assert page["columns"][2] == {"name": "amount", "type": "decimal(10,2)", "nullable": True}


def test_arrow_comes_and_goes(olga: httpx.Client, served: Served) -> None:
    rows = pa.table({"id": pa.array([5000, 5001]), "city": ["Bern", None]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    asked = {"table": "orders", "message": "two"}
    body = sink.getvalue().to_pybytes()
    made = olga.post("/v1/rows/insert", params=asked, content=body, headers={"Content-Type": ARROW})
    assert made.json()["message"] == "two"
    assert made.json()["author"] == "olga"
    asked = {"table": "orders", "columns": ["city", "id"]}
    found = rows_of(olga.get("/v1/rows", params=asked, headers={"Accept": ARROW}))
    here = served.db.branch("main").table("orders").to_arrow(["city", "id"])
    assert found == here
    broken = olga.post(
        "/v1/rows/insert", params=asked, content=b"no", headers={"Content-Type": ARROW}
    )
    assert broken.status_code == 422


def test_pages_are_of_one_snapshot(olga: httpx.Client, served: Served) -> None:
    dev = served.db.branch("main").clone("dev/pages")
    before = dev.table("orders").to_arrow(["id"]).column("id").to_pylist()
    asked = {"table": "orders", "ref": "dev/pages", "limit": "30", "columns": "city"}
    cities, after, pages = 0, None, 0
    while True:
        page = olga.get("/v1/rows", params=asked | ({"after": after} if after else {})).json()
        assert list(page["rows"][0]) == ["city"]
        cities, pages, after = cities + len(page["rows"]), pages + 1, page["next"]
        dev.delete("orders", [before[-pages]])
        if after is None:
            break
    assert cities == len(before)
    found = []
    asked |= {"where": "city = 'Oslo'", "columns": "id", "limit": "20"}
    while True:
        page = olga.get("/v1/rows", params=asked).json()
        found += [row["id"] for row in page["rows"]]
        if page["next"] is None:
            break
        asked["after"] = page["next"]
    assert found == list(range(0, 100, 2))
    assert olga.get("/v1/rows", params=asked | {"after": "x"}).json()["code"] == "invalid_data"


def test_rows_of_a_view_without_a_key_have_pages(olga: httpx.Client) -> None:
    view = {"name": "cities", "sql": "SELECT city FROM orders", "when": "immediate"}
    assert olga.post("/v1/views", json=view).status_code == 201
    asked = {"table": "cities", "ref": "cities", "limit": "60"}
    first = olga.get("/v1/rows", params=asked).json()
    second = olga.get("/v1/rows", params=asked | {"after": first["next"]}).json()
    assert len(first["rows"]) == 60
    assert second["rows"]
    assert second["next"] is None


def test_a_write_can_ask_for_the_head_it_saw(olga: httpx.Client, served: Served) -> None:
    head = olga.get("/v1/branch", params={"name": "main"}).json()["head"]
    asked = {"table": "orders"}
    body = {"rows": [{"id": 1, "city": "Paris"}]}
    seen = {"If-Match": f'"{head}"'}
    assert olga.post("/v1/rows/update", params=asked, json=body, headers=seen).status_code == 200
    late = olga.post("/v1/rows/update", params=asked, json=body, headers=seen)
    assert (late.status_code, late.json()["code"]) == (412, "precondition_failed")
    unknown = {"If-Match": '"' + "0" * 64 + '"'}
    late = olga.post("/v1/rows/delete", params=asked, json=body, headers=unknown)
    assert late.status_code == 412
    assert served.db.branch("main").table("orders").get(1) is not None


@pytest.mark.parametrize(
    ("operation", "rows", "status", "code"),
    [
        ("insert", [{"id": 2}], 409, "duplicate_key"),
        ("update", [{"id": 777, "city": "x"}], 422, "missing_key"),
        ("upsert", [{"id": "x"}], 422, "invalid_data"),
        ("upsert", [{"id": 3, "colour": 1}], 422, "invalid_data"),
        ("upsert", [{"id": 3, "amount": "1e400"}], 422, "invalid_data"),
        ("upsert", [{"id": 3, "place": {"z": 1}}], 422, "invalid_data"),
        ("delete", [{"id": None}], 422, None),
        ("upsert", "rows", 422, "invalid_data"),
    ],
)
def test_rows_that_do_not_fit(
    olga: httpx.Client, operation: str, rows: object, status: int, code: str | None
) -> None:
    made = olga.post(f"/v1/rows/{operation}", params={"table": "orders"}, json={"rows": rows})
    assert made.status_code == status, made.text
    assert code is None or made.json()["code"] == code


def test_a_table_is_made_and_described(olga: httpx.Client) -> None:
    body = {
        "name": "items",
        "columns": {"shop": "string", "id": "int", "price": "decimal(5,2)"},
        "key": ["shop", "id"],
        "defaults": {"price": "1.50"},
    }
    assert olga.post("/v1/tables", json=body).status_code == 201
    assert olga.post("/v1/tables", json=body).status_code == 409
    rows = {"rows": [{"shop": "a", "id": 1}]}
    assert olga.post("/v1/rows/insert", params={"table": "items"}, json=rows).status_code == 200
    told = olga.get("/v1/table", params={"table": "items"}).json()
    assert (told["key"], told["row_count"]) == (["shop", "id"], 1)
    row = olga.get("/v1/row", params={"table": "items", "key": ["a", "1"]}).json()["row"]
    assert row["price"] == "1.50"
    short = olga.get("/v1/row", params={"table": "items", "key": "a"})
    assert "(shop, id)" in short.json()["message"]


def test_what_is_said_twice_is_refused_by_name(served: Served, olga: httpx.Client) -> None:
    for query in ("table=orders&table=other", "table=orders&limit=1&limit=2"):
        answer = olga.get(f"/v1/rows?{query}")
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
        assert "it is said twice" in answer.json()["message"]
    assert olga.get("/v1/rows?table=orders&columns=id&columns=city&limit=1").status_code == 200
    head = served.db.branch("main").head.id
    bodies = {
        "/v1/sql": b'{"sql": "SELECT 1 AS a", "sql": "DROP TABLE orders"}',
        "/v1/rows/upsert?table=orders": b'{"rows": [{"id": 1, "id": 2, "city": "Oslo"}]}',
        "/v1/tables": b'{"name": "t", "key": "a", "columns": {"a": "int", "a": "bigint"}}',
    }
    for path, body in bodies.items():
        answer = olga.post(path, content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request"), path
        assert "twice" in answer.json()["message"]
    assert served.db.branch("main").head.id == head


def test_a_cursor_is_for_what_it_was_given_for(olga: httpx.Client) -> None:
    asked: dict[str, str | int] = {"table": "orders", "limit": 10}
    plain = olga.get("/v1/rows", params=asked).json()["next"]
    found = olga.get("/v1/rows", params={**asked, "where": "id >= 0"}).json()["next"]
    for given in ({"where": "id >= 0", "after": plain}, {"after": found}):
        answer = olga.get("/v1/rows", params={**asked, **given})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_data"), given
        assert "no cursor" in answer.json()["message"]


def test_a_page_of_a_condition_reads_no_more_than_it_needs(
    olga: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = served.db.branch("main")
    main.create_table("many", {"shop": "string", "id": "bigint", "n": "int"}, key=["shop", "id"])
    count = 1_000_000
    ids = np.arange(count)
    main.insert("many", pa.table({"shop": pa.repeat("a", count), "id": ids, "n": ids % 7}))
    read: list[int] = []
    batches = RowSet.batches

    def watched(self: RowSet, *given: Any) -> Iterator[pa.RecordBatch]:
        for batch in batches(self, *given):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(RowSet, "batches", watched)
    asked: dict[str, Any] = {"table": "many", "where": "n = 3", "columns": "n", "limit": 100}
    for _ in range(3):
        read.clear()
        page = olga.get("/v1/rows", params=asked).json()
        assert page["rows"] == [{"n": 3}] * 100
        assert 0 < sum(read) < count // 20
        asked["after"] = page["next"]
    read.clear()
    asked |= {"where": "n = 3 AND shop = 'a' AND id >= 999990", "columns": "id"}
    assert [row["id"] for row in olga.get("/v1/rows", params=asked).json()["rows"]] == [999_995]
    assert 0 < sum(read) < count // 20


def test_rows_of_a_condition_have_pages_where_nobody_sees_their_keys(
    olga: httpx.Client, served: Served
) -> None:
    served.db.branch("main").derive("towns", "SELECT id, city FROM orders WHERE id < 50")
    served.db.branch("main").derive("names", "SELECT city, id + 0 AS n FROM orders WHERE id < 50")
    for view, column in (("towns", "id"), ("names", "n")):
        where = f"{column} % 2 = 0"
        asked: dict[str, Any] = {"table": view, "ref": view, "where": where, "limit": 10}
        found, pages = [], 0
        while pages < 10:
            page = olga.get("/v1/rows", params=asked).json()
            found += [row[column] for row in page["rows"]]
            pages, asked["after"] = pages + 1, page["next"]
            if page["next"] is None:
                break
        assert pages == 3
        assert sorted(found) == [n for n in range(50) if n % 2 == 0]


def test_values_of_many_parts_come_and_go_whole(olga: httpx.Client, served: Served) -> None:
    served.db.branch("main").clone("dev/large")
    text = "".join(f"{number}é" for number in range(400_000))
    where = {"table": "orders", "branch": "dev/large"}
    rows = {"rows": [{"id": 70000, "city": text}]}
    assert olga.post("/v1/rows/insert", params=where, json=rows).is_success
    sent = pa.table({"id": [70001], "city": [text]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, sent.schema) as writer:
        writer.write_table(sent)
    body, kind = sink.getvalue().to_pybytes(), {"Content-Type": ARROW}
    assert olga.post("/v1/rows/insert", params=where, content=body, headers=kind).is_success
    asked = {"table": "orders", "ref": "dev/large", "where": "id IN (70000, 70001)"}
    answer = olga.get("/v1/rows", params=asked)
    assert int(answer.headers["content-length"]) == len(answer.content) > 2 * len(text)
    assert [row["city"] for row in answer.json()["rows"]] == [text, text]
    answer = olga.get("/v1/rows", params=asked, headers={"Accept": ARROW})
    assert pa.ipc.open_stream(answer.content).read_all()["city"].to_pylist() == [text, text]
    session = olga.post("/v1/sql/sessions", json={"branch": "dev/large"}).json()["id"]
    place = f"/v1/sql/sessions/{session}/rows"
    more = {"rows": [{"id": 70002, "city": text}]}
    assert olga.post(place, params={"table": "orders"}, json=more).json() == {"changed": 1}
    statement = {"sql": "SELECT city FROM orders WHERE id = 70002", "branch": "dev/large"}
    assert olga.post("/v1/sql", json=statement).json()["rows"] == [{"city": text}]
