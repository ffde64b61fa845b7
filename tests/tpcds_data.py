"""TPC-DS: its tables and its 99 queries, made by the extension of DuckDB that generates them.

The extension comes as a package for one version of DuckDB, which is not the one in use here.  So
both are put into a folder, and a program of its own runs them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["DATA", "generate", "key_of"]

DATA = "data"
"""The folder that the tables are written to, each as Parquet."""

_VERSION = "1.5.5"
_PACKAGES = (f"duckdb=={_VERSION}", f"duckdb-extension-tpcds=={_VERSION}")
_PROGRAM = """
import json, sys
from pathlib import Path
import duckdb, duckdb_extension_tpcds
folder, scale = Path(sys.argv[1]), float(sys.argv[2])
package = Path(duckdb_extension_tpcds.__file__).parent
(extension,) = package.rglob("tpcds.duckdb_extension")
database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
database.execute(f"LOAD '{extension}'")
database.execute(f"CALL dsdgen(sf = {scale})")
for (name,) in database.execute("SELECT table_name FROM duckdb_tables()").fetchall():
    database.execute(f"COPY {name} TO '{folder / name}.parquet'")
queries = database.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
(folder / "queries.json").write_text(json.dumps(queries))
"""

_KEYS = {
    "store_sales": ("ss_item_sk", "ss_ticket_number"),
    "store_returns": ("sr_item_sk", "sr_ticket_number"),
    "catalog_sales": ("cs_item_sk", "cs_order_number"),
    "catalog_returns": ("cr_item_sk", "cr_order_number"),
    "web_sales": ("ws_item_sk", "ws_order_number"),
    "web_returns": ("wr_item_sk", "wr_order_number"),
    "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
}
"""The keys of facts; other tables have their first column."""


def generate(folder: Path, scale: float) -> tuple[dict[str, pa.Table], dict[int, str]]:
    """The tables, and the queries by their numbers, in Spark's quotes."""
    packages, data = folder / "packages", folder / DATA
    data.mkdir(parents=True)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*install, str(packages), *_PACKAGES], check=True)
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    program = [sys.executable, "-c", _PROGRAM, str(data), str(scale)]
    subprocess.run(program, check=True, env=environment)
    tables = {path.stem: pq.read_table(path) for path in sorted(data.glob("*.parquet"))}
    queries = json.loads((data / "queries.json").read_text())
    return tables, {n: text.strip().rstrip(";").replace('"', "`") for n, text in queries}


def key_of(name: str, table: pa.Table) -> tuple[str, ...]:
    """The columns that identify the rows of a table."""
    return _KEYS.get(name, (table.column_names[0],))
