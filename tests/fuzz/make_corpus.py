"""Writes the corpus: a few small inputs for each target, from which others are made."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from livingdb.chunks.chunk import encode_chunk, encode_record
from livingdb.chunks.pack import PackWriter
from livingdb.evolution import AddColumn, MaskColumn
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

FOLDER = Path(__file__).parent / "corpus"
ARRAYS = {
    "numbers": [pa.array([1, 2, None, 4] * 20), pa.array([1.5, None] * 40)],
    "texts": [pa.array([f"text {n % 7}" for n in range(80)])],
    "nested": [pa.array([[{"a": n, "b": "x"}], None] * 3) for n in range(2)],
    "maps": [pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32()))],
    "wide": [pa.array([n]) for n in range(2_100)],
}
TEXTS = {
    "ref": ["main", "a/b~3", "main@2026-11-15T10:00:00", "every 10 minutes", "* * * * *"],
    "sql": [
        "SELECT a, count(*) AS n FROM t WHERE b > 1 AND c LIKE 'x%' GROUP BY a ORDER BY 2 LIMIT 5",
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a = s.a",
        "ALTER TABLE t ADD COLUMN (a INT NOT NULL DEFAULT 1 COMMENT 'x')",
        "CREATE TABLE t (id BIGINT PRIMARY KEY, a ARRAY<STRUCT<b: DECIMAL(10, 2)>>)",
        "ALTER SYNC s SET WHEN 'every 1 hour'",
        "SHOW TABLES",
    ],
    "spec": [
        json.dumps(AddColumn("t", "a", "double", default=0.5).to_json()),
        json.dumps(MaskColumn("t", "a", method="null").to_json()),
        json.dumps({"name": "max_changed_share", "share": 0.2, "action": "hold"}),
        json.dumps({"name": "v", "what": "sql", "tables": {"t": {"branch": "b", "table": "t"}}}),
    ],
}


class _Bytes(bytearray):
    def write(self, data: bytes | memoryview) -> None:
        self.extend(data)


def inputs() -> dict[str, list[bytes]]:
    """By target."""
    chunks = [encode_chunk(arrays) for arrays in ARRAYS.values()]
    records = [encode_record(b'{"kind":"rows"}' * 9)]
    held = _Bytes()
    writer = PackWriter(held)
    for one in (*chunks[:4], *records):
        writer.add(one)
    writer.finish()
    schema = TableSchema.of({"id": "bigint", "a": "string"}, "id")
    address = "ab" * 32
    recipes: list[dict[str, object]] = [
        {"kind": "rows", "definition": address, "root": address, "count": 3},
        {"kind": "change", "base": address, "chunks": [address], "columns": [0], "masked": [],
         "rows": 1, "counts": [1, 0, 0]},
        {"kind": "lens", "change": "x", "inputs": {"t": address}, "part": "t"},
        Definition(schema, Layout()).to_json(),
    ]  # fmt: skip
    return {
        "chunk": [one.data for one in (*chunks, *records)],
        "pack": [bytes(held)],
        "recipe": [json.dumps(one).encode() for one in recipes],
        **{name: [text.encode() for text in some] for name, some in TEXTS.items()},
    }


if __name__ == "__main__":
    for target, some in inputs().items():
        (FOLDER / target).mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(some):
            (FOLDER / target / f"{number}").write_bytes(data)
