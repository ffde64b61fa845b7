"""The Spark engine: the same requests, answered by Spark.

Large tables are read from files that Spark reads natively, others through LivingDB's data source,
by tasks that read chunks themselves; rows that only this process has are handed over.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded.results import as_stored_types
from livingdb.engines.pruning import scan_bounds
from livingdb.engines.range_text import RANGES_OPTION, ranges_to_text
from livingdb.engines.request import Request, Source, TableLocation
from livingdb.engines.row_stream import RowStream
from livingdb.engines.spark.build_trees import build_frame
from livingdb.engines.spark.parallelism import parallelism
from livingdb.engines.spark.projected_table import projected_frame
from livingdb.engines.spark.stop_jobs import stoppable_jobs
from livingdb.engines.tree_parts import TreeParts
from livingdb.engines.trust import text_for_spark
from livingdb.engines.value_ranges import Ranges
from livingdb.errors import InvalidData, LivingDBError, Unsupported, Untrusted
from livingdb.tables.recipe import Definition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SUBSTITUTE", "SparkEngine"]

SUBSTITUTE = "spark.sql.variable.substitute"
"""With it Spark puts settings and the environment in the place of `${…}`, also in texts.

It stays off on every session that LivingDB is given.  To turn it on again after a statement would
let the statements of other threads slip in between, and a frame of Spark Connect is read anew
each time it runs.
"""

_numbers = count()
"""Views of all threads of a process share a session, so their names never repeat."""


@dataclass(frozen=True)
class _Read:
    """What of a stored table is read: columns, and ranges as the option of the source says them."""

    location: TableLocation
    columns: tuple[str, ...]
    ranges: str


class SparkEngine:
    """Answers requests on a Spark session that knows LivingDB's data source."""

    name = "spark"

    def __init__(self, session: SparkSession):
        self.session = session

    def frame(self, request: Request) -> DataFrame:
        """The answer as a data frame, not computed yet."""
        query = request.query.copy()
        names = {name: f"livingdb_view_{next(_numbers)}" for name in request.sources}
        for table in query.find_all(exp.Table):
            if table.name in names and not table.db:
                table.set("this", exp.to_identifier(names[table.name]))
        schemas = {names[name]: source.schema for name, source in request.sources.items()}
        own = None if request.written is None else request.written()
        written = None if own is None else own.with_relations(names)
        text = text_for_spark(query, schemas, request.trust, written)
        values = request.used_parameters() if own is None else own.values
        self._check_variables(query, schemas)
        try:
            with _translate_spark_errors():
                for name, frame in self._frames(request):
                    frame.createOrReplaceTempView(names[name])
                self.session.conf.set(SUBSTITUTE, "false")
                return self.session.sql(text, args=values or None)
        finally:
            if not _is_remote(self.session):
                for view in names.values():
                    self.session.catalog.dropTempView(view)

    def _check_variables(self, query: exp.Query, schemas: Mapping[str, pa.Schema]) -> None:
        """`Untrusted` for a name that Spark would take for a variable of the session."""
        if _is_remote(self.session):
            return
        machine: Any = self.session._jvm
        manager = self.session._jsparkSession.sessionState().catalogManager().tempVariableManager()
        if manager.isEmpty():
            return
        known = {name.casefold() for schema in schemas.values() for name in schema.names}
        parts = {part.name for column in query.find_all(exp.Column) for part in column.parts}
        for name in sorted(part for part in parts if part.casefold() not in known):
            if manager.get(machine.PythonUtils.toSeq([name.lower()])).isDefined():
                raise Untrusted(
                    f"{name!r} is a variable of the Spark session; SQL here reads tables, and "
                    "takes values as parameters"
                )

    def rows(self, request: Request) -> pa.Table:
        """The rows the query gives."""
        with stoppable_jobs(self.session):
            frame = self.frame(request)
            with _translate_spark_errors():
                _check_items(frame)
                table = frame.toArrow()
        return as_stored_types(table, [""] * table.num_columns)

    def schema(self, request: Request) -> pa.Schema:
        """The columns of the rows the query gives, without computing these."""
        with stoppable_jobs(self.session):
            frame = self.frame(request)
            with _translate_spark_errors():
                table = frame.limit(0).toArrow()
        return as_stored_types(table, [""] * table.num_columns).schema

    def stream(self, request: Request) -> RowStream:
        """The rows the query gives; they are gathered here before the first is read."""
        return RowStream.of(self.rows(request))

    def tree(self, request: Request, definition: Definition, url: str) -> TreeParts:
        """The rows the query gives as trees, in packs of the files at a URL."""
        parts = 2 * parallelism(self.session)
        with stoppable_jobs(self.session), _translate_spark_errors():
            return build_frame(url, definition, self.frame(request), parts)

    def _frames(self, request: Request) -> Iterator[tuple[str, DataFrame]]:
        """The rows of each source as a data frame.

        Sources that are read alike are one frame: each starts a process of Python to be made, and
        one more to be planned.
        """
        known: dict[_Read, DataFrame] = {}
        for name, source in request.sources.items():
            needed = _mentioned_columns(request.query, source.schema.names)
            wanted = self._prunable_ranges(source, request)
            if source.location is None:
                yield name, self._given_frame(source, needed, wanted)
                continue
            read = _Read(source.location, tuple(needed), _ranges_option(wanted))
            if read not in known:
                known[read] = self._stored_frame(read)
            yield name, known[read]

    def _given_frame(
        self, source: Source, needed: list[str], wanted: Mapping[str, Ranges]
    ) -> DataFrame:
        """Rows that only this process has."""
        if isinstance(source.rows, pa.Table):
            return self.session.createDataFrame(source.rows)
        part = scan_bounds(source.rows.schema, wanted, source.span)
        found = [source.rows.to_arrow(needed, span, part.filters) for span in part.spans]
        empty = source.schema.empty_table().select(needed)
        return self.session.createDataFrame(pa.concat_tables([empty, *found]))

    def _stored_frame(self, read: _Read) -> DataFrame:
        """Rows that Spark reads natively, or tasks with what they know of LivingDB."""
        stored = read.location
        files = stored.project and stored.project(self.session, not read.ranges)
        if files:
            return projected_frame(self.session, files, read.columns)
        made = self.session.read.format("livingdb").option("table", stored.table)
        made = made.option("versionAsOf", f"id:{stored.snapshot}")
        made = made.option("columns", _columns_option(read.columns))
        if read.ranges:
            made = made.option(RANGES_OPTION, read.ranges)
        return made.load(stored.url)

    def _prunable_ranges(self, source: Source, request: Request) -> dict[str, Ranges]:
        """The ranges outside of which no row matters, whatever Spark takes the query to mean.

        A name is of a column that Spark sees; times are UTC in ranges and maybe not in Spark.
        """
        schema = source.schema
        found = {name: ranges for name, ranges in source.ranges.items() if name in schema.names}
        times = [name for name in found if pa.types.is_timestamp(schema.field(name).type)]
        if times and not self._has_utc():
            found = {name: ranges for name, ranges in found.items() if name not in times}
        return found

    def _has_utc(self) -> bool:
        """Whether times without a zone are UTC, where they are read now."""
        if _is_remote(self.session):
            return False
        return self.session.conf.get("spark.sql.session.timeZone") == "UTC"


def _check_items(frame: DataFrame) -> None:
    """`Unsupported` for arrays and maps of nothing, which PySpark has no Arrow type for."""
    for field in frame.schema:
        kind = field.dataType.simpleString()
        if "array<void>" in kind or "map<void" in kind:
            raise Unsupported(
                f"column {field.name!r} holds nothing in an array or a map ({kind}); say of what "
                "it is, as in CAST(array() AS array<string>)"
            )


def _is_remote(thing: Any) -> bool:
    """Whether frames are understood when they run, and not when they are made."""
    return ".connect." in type(thing).__module__


def _mentioned_columns(query: exp.Query, columns: list[str]) -> list[str]:
    """The columns that the query may speak of: those whose names are anywhere in it."""
    if any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star)):
        return columns
    if any(join.method for join in query.find_all(exp.Join)):
        return columns
    spoken = {node.name.casefold() for node in query.find_all(exp.Identifier)}
    return [name for name in columns if name.casefold() in spoken] or columns[:1]


def _columns_option(names: Sequence[str]) -> str:
    """Names as the option `columns` takes them."""
    return ",".join(f"`{n.replace('`', '``')}`" if _needs_quotes(n) else n for n in names)


def _ranges_option(wanted: Mapping[str, Ranges]) -> str:
    return ranges_to_text(wanted) if wanted else ""


def _needs_quotes(name: str) -> bool:
    return any(mark in name for mark in ",`") or name != name.strip()


_CAUSE = re.compile(
    r"[A-Za-z_][\w.]*(Error|Exception|Corruption|NotFound|InvalidData|Unsupported)\b.*: "
)


_SAID = re.compile(r"^(?:Caused by: |: )?[\w.$]+(?:Exception|Error): ")
"""A line in which a Java error says what it is."""


@contextmanager
def _translate_spark_errors() -> Iterator[None]:
    """Spark's errors in LivingDB's words."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    try:
        with _mute_query_log():
            yield
    except LivingDBError:
        raise
    except (AnalysisException, ParseException) as error:
        raise InvalidData(_first_line(error)) from None
    except (PySparkException, Py4JError) as error:
        if "StackOverflowError" in str(error):
            raise InvalidData("the statement is nested too deeply") from None
        raise InvalidData(f"Spark: {_first_line(error)}") from error
    except pa.ArrowException as error:
        raise Unsupported(
            f"a column of Spark's answer cannot be read: {_first_line(error)}; cast it to string"
        ) from error


@contextmanager
def _mute_query_log() -> Iterator[None]:
    """Without the traces that Spark logs of errors which are raised anyway."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _first_line(error: Exception) -> str:
    """What an error says first; of one in a Python worker, what it ends with."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    is_ours = "Python worker" in lines[0] or "PYTHON_DATA_SOURCE" in lines[0]
    called = "An error occurred while calling" in lines[0]
    said = [line.split(": ", 1)[-1].strip() for line in lines[1:] if _SAID.search(line)]
    if called and said:
        return said[-1]
    causes = [line.strip() for line in lines if _CAUSE.match(line)] if is_ours else []
    return f"{lines[0].rstrip(':')}: {causes[-1]}" if causes else lines[0]
