"""Which examples of Spark's functions are answered otherwise than by Spark, and why."""

from __future__ import annotations

from livingdb.engines.spark_functions import REFUSED

SETTINGS = "statements that change the settings of a session"
KINDS = {
    "duration": "tables and results hold no intervals: cast them to string",
    "intervals": "tables and results hold no intervals: cast them to string",
    "times of day": "tables and results hold no times of day: cast them to string",
    "stand in FROM": "FROM takes tables, queries, range(…) and the functions of livingdb",
    "'tab' that SQL may call": "VALUES without parentheses take AS before a name with columns",
    "test_metric_view": "there are no metric views",
}
"""Words of a refusal, and the reason."""
OTHERWISE = {
    "SELECT 2 > 1.1": "Spark calls the column (2 > 1)",
}
"""Examples whose columns are called otherwise here."""


def refusal_reason(function: str, text: str, message: str) -> str | None:
    """Why an example is refused with these words; None if it must not be."""
    if text.startswith("SET "):
        return SETTINGS
    if function in REFUSED and f"'{function}' is refused" in message:
        return REFUSED[function]
    return next((reason for words, reason in KINDS.items() if words in message), None)
