"""Numbers of identity columns for the rows of a data frame, before they are brought in key order.

Tasks never talk to the catalog.  So the rows that need numbers are counted first, partition by
partition, then as many are taken from the counter at once, and each row gets the one of its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from livingdb.commit.writing.fill_generated import refuse_chosen, reserve
from livingdb.sql.bindings import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from livingdb.commit.writing.write_set import WriteSet
    from livingdb.tables.column import Column

__all__ = ["with_numbers"]

_PLACE, _PART, _FIRST, _ROWS = "~place", "~part", "~first", "~rows"
_PART_BITS = 33
"""`monotonically_increasing_id` has the partition above so many bits, and the row below them."""


@contextmanager
def with_numbers(df: DataFrame, work: WriteSet, table: str) -> Iterator[DataFrame]:
    """The data frame with numbers for rows that name none, as long as the context lasts.

    `InvalidData` if they name one of a column that always draws.
    """
    held: list[DataFrame] = []
    try:
        for column in work.schema(table).columns:
            if column.generated is not None:
                df = _Drawing(df, work, table, column, held).frame()
        yield df
    finally:
        for frame in held:
            frame.unpersist()


class _Drawing:
    """Draws the numbers of one column; frames that are to stay as they are go to `held`."""

    def __init__(
        self,
        df: DataFrame,
        work: WriteSet,
        table: str,
        column: Column,
        held: list[DataFrame],
    ):
        self._df, self._work, self._table = df, work, table
        self._column, self._held = column, held

    def frame(self) -> DataFrame:
        """The rows, all with numbers."""
        df, name = self._df, self._column.name
        if name not in df.columns:
            return self._numbered(df, None)
        mine = df[quote(name)]
        given = df.where(mine.isNotNull())
        furthest = self._furthest(given)
        if furthest is None:
            return self._numbered(df.where(mine.isNull()), None)
        refuse_chosen(self._column)
        drawn = self._numbered(df.where(mine.isNull()), furthest)
        return given.unionByName(drawn.select([quote(each) for each in given.columns]))

    def _furthest(self, given: DataFrame) -> int | None:
        """The number that the counter comes by last, of those that rows name; None if none do."""
        from pyspark.sql import functions as fn

        rule = self._column.numbers
        last = fn.min if rule is not None and rule.increment < 0 else fn.max
        (found,) = given.agg(last(given[quote(self._column.name)])).collect()[0]
        return None if found is None else int(found)

    def _numbered(self, rows: DataFrame, furthest: int | None) -> DataFrame:
        """Rows with a number each, in their order; `furthest` is one that others name."""
        from pyspark.sql import functions as fn

        column = self._column
        # Where rows are is asked twice, and has to be answered in the same way.
        placed = rows.withColumn(_PLACE, fn.monotonically_increasing_id()).persist()
        self._held.append(placed)
        part = fn.shiftright(fn.col(_PLACE), _PART_BITS)
        counted = placed.groupBy(part.alias(_PART)).agg(fn.count("*").alias(_ROWS)).collect()
        sizes = {row[_PART]: row[_ROWS] for row in counted}
        first, step = reserve(
            self._work.graph.generated,
            self._work.rows(self._table),
            column,
            sum(sizes.values()),
            furthest,
        )
        places: list[tuple[int, int, int]] = []
        for number in sorted(sizes):
            places.append((number, first, sizes[number]))
            first += step * sizes[number]
        schema = f"`{_PART}` bigint, `{_FIRST}` bigint, `{_ROWS}` bigint"
        begins = rows.sparkSession.createDataFrame(places, schema)
        at = fn.col(_PLACE).bitwiseAND((1 << _PART_BITS) - 1)
        moved = fn.raise_error("the rows of the data frame are others each time; store it first")
        number = fn.when(at < fn.col(_ROWS), fn.col(_FIRST) + step * at).otherwise(moved)
        joined = placed.withColumn(_PART, part).join(fn.broadcast(begins), _PART, "left")
        kept = [quote(name) for name in rows.columns if name != column.name]
        kind = {8: "tinyint", 16: "smallint", 32: "int"}.get(column.type.bit_width, "bigint")
        return joined.select(*kept, number.cast(kind).alias(column.name))
