"""A tree as Spark 4 reads it."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator

from livingdb.engines.portable.recursive_queries import MOST_LEVELS

__all__ = ["spark_text"]


class _Generator(SparkGenerator):
    TRANSFORMS: ClassVar = {
        kind: how for kind, how in SparkGenerator.TRANSFORMS.items() if kind is not exp.WithinGroup
    }

    def cte_sql(self, expression: exp.CTE) -> str:
        """A named query, with MAX RECURSION LEVEL if it has one."""
        written, levels = super().cte_sql(expression), expression.args.get(MOST_LEVELS)
        if levels is None:
            return written
        alias = self.sql(expression, "alias")
        return f"{alias} MAX RECURSION LEVEL {levels.name}{written.removeprefix(alias)}"


class _Dialect(Spark):
    """Spark 4, which has percentile_cont and percentile_disc: no other stands in for them."""

    Generator = _Generator


def spark_text(node: exp.Expr, **how: Any) -> str:
    """The text of a query or a part of one, without its comments."""
    return node.sql(_Dialect, comments=False, **how)
