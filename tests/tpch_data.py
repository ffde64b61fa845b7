"""TPC-H in a database: its data, and streams of changes as they come in from the shop."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tests.tpch_queries import KEYS, TABLES

import livingdb

__all__ = ["generate", "load", "stream"]

MONEY = pa.decimal128(15, 2)


def generate(folder: Path, scale: float) -> dict[str, pa.Table]:
    """The tables, made by tpchgen."""
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    command = [str(program), "parquet", "-s", str(scale), "--output-dir", str(folder), "-q"]
    subprocess.run(command, check=True, capture_output=True)
    return {
        name: pq.read_table(folder / f"{name}.parquet").cast(schema)
        for name, schema in TABLES.items()
    }


def load(branch: livingdb.Branch, tables: Mapping[str, pa.Table]) -> None:
    """Put the tables on a branch."""
    with branch.transaction("load TPC-H") as tx:
        for name, rows in tables.items():
            tx.create_table(name, TABLES[name], KEYS[name])
            tx.insert(name, rows)


def stream(
    branch: livingdb.Branch, tables: Mapping[str, pa.Table], share: float, seed: int = 0
) -> Iterator[str]:
    """Rounds of changes, each made on the branch; what was done.

    Orders come with their items and go with them, in turn; then other tables are updated.
    """
    chance = np.random.default_rng(seed)
    orders, items = tables["orders"], tables["lineitem"]
    keys = orders["o_orderkey"].to_numpy()
    count = max(1, int(len(keys) * share))
    next_key = int(keys.max()) + 1
    gone: set[int] = set()
    while True:
        chosen = chance.choice(keys, count, replace=False)
        renamed = dict(zip(chosen.tolist(), range(next_key, next_key + count), strict=True))
        next_key += count
        with branch.transaction("new orders") as tx:
            for name, rows, key in (
                ("orders", orders, "o_orderkey"),
                ("lineitem", items, "l_orderkey"),
            ):
                some = rows.filter(pc.is_in(rows[key], value_set=pa.array(chosen)))
                fresh = pa.array([renamed[k] for k in some[key].to_pylist()], pa.int64())
                tx.insert(
                    name,
                    some.set_column(
                        some.schema.get_field_index(key), some.schema.field(key), fresh
                    ),
                )
        yield "insert"
        left = np.array([key for key in keys.tolist() if key not in gone])
        dropped = chance.choice(left, count, replace=False)
        gone.update(dropped.tolist())
        some = items.filter(pc.is_in(items["l_orderkey"], value_set=pa.array(dropped)))
        with branch.transaction("old orders") as tx:
            tx.delete("lineitem", some.select(["l_orderkey", "l_linenumber"]))
            tx.delete("orders", pa.table({"o_orderkey": dropped}))
        yield "delete"
        with branch.transaction("other tables") as tx:
            for name, column in (
                ("customer", "c_acctbal"),
                ("supplier", "s_acctbal"),
                ("part", "p_retailprice"),
                ("partsupp", "ps_supplycost"),
            ):
                rows = tables[name]
                number = max(1, int(rows.num_rows * share))
                places = pa.array(chance.choice(rows.num_rows, number, replace=False))
                values = [Decimal(int(n)) / 100 for n in chance.integers(0, 100_000, number)]
                changed = rows.select(list(KEYS[name])).take(places)
                tx.update(name, changed.append_column(column, pa.array(values, MONEY)))
        yield "update"
