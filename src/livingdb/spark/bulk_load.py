"""Bulk loads: every task builds the tree of its key range, and the driver joins them.

The rows are range-partitioned and sorted by key, so that a task sees whole, consecutive ranges.
The joined tree is the one an embedded build would make, however many tasks there were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from livingdb.database.database import Database
from livingdb.database.snapshot import Snapshot
from livingdb.engines.spark.build_trees import arrow_schema, build_frame
from livingdb.engines.spark.parallelism import parallelism
from livingdb.engines.tree_parts import drop_packs
from livingdb.errors import AlreadyExists, InvalidData
from livingdb.spark.draw_numbers import with_numbers
from livingdb.spark.options import check_partitions
from livingdb.tables.layout import Layout
from livingdb.tables.schema import GeneratedLike, UniqueLike

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["load"]


def load(
    db: Database,
    branch: str,
    table: str,
    df: DataFrame,
    key: str | Sequence[str] | None = None,
    *,
    layout: Layout | None = None,
    defaults: Mapping[str, object] | None = None,
    foreign_keys: Mapping[str, str] | None = None,
    unique: UniqueLike | None = None,
    generated: GeneratedLike | None = None,
    partitions: int | None = None,
    mode: str = "error",
    message: str = "",
    author: str | None = None,
) -> Snapshot:
    """Load a data frame into a table, made if it is not there (`key` names its key columns).

    A table that has rows is refused, unless `mode="overwrite"` puts the new ones in their place.
    Rows that name no number of an identity column draw one, in the order of the data frame.
    """
    if mode not in ("error", "overwrite"):
        raise InvalidData(f"mode {mode!r}: choose 'error' or 'overwrite'")
    wanted = None if partitions is None else check_partitions(partitions)
    target = db.branch(branch)
    with target.transaction(message or f"load {table}", author) as tx:
        tx._check_rights()
        if table in tx.tables():
            if len(tx.table(table)) and mode == "error":
                raise AlreadyExists(f"table {table!r} has rows; mode='overwrite' replaces them")
        else:
            if key is None:
                raise InvalidData(f"table {table!r} is not there yet: name its key columns")
            tx.create_table(
                table,
                arrow_schema(df),
                key,
                layout=layout,
                defaults=defaults,
                foreign_keys=foreign_keys,
                unique=unique,
                generated=generated,
            )
        definition = tx.work.definition(table)
        url = db._graph.place.files.url
        parts = wanted or 2 * parallelism(df.sparkSession)
        with with_numbers(df, tx.work, table) as rows:
            built = build_frame(url, definition, rows, parts)
        try:
            tx.replace(table, built, is_drawn=True)
            made = tx.commit()
        except BaseException:
            drop_packs(url, built.packs)
            raise
    return made
