"""What is said to be wrong before Spark starts is wrong for Spark: kinds that functions take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from sqlglot import exp
from tests.property.trying import HAS_TIME
from tests.spark.portable_cases import LITERALS

from livingdb.engines.portable.portability import Unanswerable, check_portability
from livingdb.engines.portable.signatures import AGGREGATES, FUNCTIONS, GROUPS, Signature
from livingdb.sql.parse import parse_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "string": pa.string(),
}
COLUMNS = pa.schema([(f"c_{name}", kind) for name, kind in TYPES.items()])


def wrong_calls() -> list[str]:
    """Calls with one argument of another family that are said to have no answer."""
    found = dict.fromkeys(
        text
        for line in (*FUNCTIONS, *AGGREGATES)
        for text in _calls(line)
        if isinstance(_checked(text), Unanswerable)
    )
    return list(found)


def _checked(text: str) -> object:
    query = parse_statement(text)
    assert isinstance(query, exp.Query)
    return check_portability(query, {"t": COLUMNS})


def _calls(line: Signature) -> list[str]:
    kinds = [kind.rstrip("*") for kind in line.kinds]
    plain = [_written(kind) for kind in kinds]
    found = []
    for at, kind in enumerate(kinds):
        if kind in LITERALS or None in plain:
            continue
        for other in TYPES:
            given = [*plain[:at], f"c_{other}", *plain[at + 1 :]]
            try:
                found.append(f"SELECT {line.text.format(*given)} AS v FROM t")
            except IndexError:  # it names an argument more than once
                continue
    return found


def _written(kind: str) -> str | None:
    if kind in LITERALS:
        return LITERALS[kind][0]
    known = [name for name in GROUPS.get(kind, (kind,)) if name in TYPES]
    return f"c_{known[0]}" if known else None


def test_wrong_kinds_are_wrong_for_spark(spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    texts = wrong_calls()
    assert "SELECT sum(c_boolean) AS v FROM t" in texts
    assert len(texts) > 30
    spark.createDataFrame(COLUMNS.empty_table()).createOrReplaceTempView("t")
    taken = []
    for text in texts[:: 1 if HAS_TIME else 3]:
        try:
            spark.sql(text)
            taken.append(text)
        except AnalysisException:
            pass
    assert taken == []


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("date_trunc('MONTH', c_double)", r"date_trunc\(…\) takes no double"),
        ("hour(c_bigint)", r"hour\(…\) takes no bigint"),
        ("sum(c_date)", r"sum\(…\) takes no date"),
        ("avg(c_boolean)", r"avg\(…\) takes no boolean"),
    ],
)
def test_what_is_said(call: str, says: str) -> None:
    import re

    reason = _checked(f"SELECT {call} AS v FROM t")
    assert isinstance(reason, Unanswerable)
    assert re.search(says, reason)
