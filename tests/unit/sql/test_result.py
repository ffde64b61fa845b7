"""What a statement gives back."""

from __future__ import annotations

import pyarrow as pa

from livingdb.sql.result import Result


def test_rows_in_every_shape() -> None:
    result = Result(pa.table({"id": [1, 2], "name": ["a", None]}))
    assert list(result) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    assert len(result) == 2
    assert result.schema.names == ["id", "name"]
    assert pa.table(result) == result.to_arrow()
    assert list(result.to_pandas()["id"]) == [1, 2]
    assert result.to_polars()["name"].to_list() == ["a", None]
    assert (result.snapshot, result.changed) == (None, 0)


def test_text() -> None:
    result = Result(pa.table({"id": [1, 20], "name": ["a", None]}))
    assert repr(result) == "id  name\n──  ────\n1   a\n20  NULL"
    assert repr(Result(pa.table({}), "s", 1)) == "1 row changed"
    assert repr(Result(pa.table({}), "s", 1200)) == "1,200 rows changed"
    long = repr(Result(pa.table({"a": list(range(25)), "b": ["x" * 100] * 25})))
    assert long.endswith("… and 5 more rows")
    assert "x" * 40 not in long


def test_html_is_escaped() -> None:
    html = Result(pa.table({"<b>": ["<script>alert(1)</script>"]}))._repr_html_()
    assert "<script>" not in html
    assert "&lt;b&gt;" in html
    many = Result(pa.table({"a": list(range(100))}))._repr_html_()
    assert many.count("<tr>") == 21
    assert "80 more rows" in many
    assert Result(pa.table({}), "s", 2)._repr_html_() == "<p>2 rows changed</p>"
