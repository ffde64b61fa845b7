"""The examples by which Spark describes its functions: an oracle that nobody here wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = """
    % & * + - / < <=> >>> abs add_months approx_top_k_estimate array_sort avg bit_count bitmap_count
    bround cast ceil coalesce concat concat_ws cume_dist date_add date_trunc datediff div element_at
    explode extract floor from_json grouping hash if in initcap instr left like listagg log lpad
    make_interval map max_by mod named_struct nth_value percentile pmod regexp_replace reverse round
    row_number sequence split stack substring sum theta_sketch_agg to_char trim trunc try_divide
    try_parse_json unix_date user version when width_bucket xpath
"""
"""The examples of every fourth one run each time; those of all functions when there is time."""

MOMENTARY = """
    current_time curdate current_date current_timestamp localtime localtimestamp now rand randn
    random randstr session_window shuffle uniform unix_timestamp uuid
"""
"""They give something else each time: their types and names are compared."""


def function_names(spark: SparkSession) -> list[str]:
    """Every function Spark has."""
    return [str(row[0]) for row in spark.sql("SHOW FUNCTIONS").collect()]


def function_examples(spark: SparkSession, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The name of each function and each statement in its description."""
    for name in names:
        quoted = name.replace("`", "``")
        described = spark.sql(f"DESCRIBE FUNCTION EXTENDED `{quoted}`").collect()
        for text in _statements("\n".join(str(row[0]) for row in described)):
            yield name, text


def _statements(description: str) -> Iterator[str]:
    found = re.search(r"Examples:\n(.*?)(?=\n    (?:Note|Since|Deprecated)|\Z)", description, re.S)
    for part in re.findall(r"^\s*> (.*?);\s*$", found[1] if found else "", re.S | re.M):
        yield "\n".join(line.strip() for line in part.splitlines())
