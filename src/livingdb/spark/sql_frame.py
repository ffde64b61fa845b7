"""SQL over a branch as a data frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from livingdb.database.database import Database
from livingdb.database.sql_scope import SnapshotScope
from livingdb.engines.spark.engine import SparkEngine
from livingdb.errors import Unsupported
from livingdb.spark.frame_leases import FrameLease
from livingdb.spark.start_session import session
from livingdb.sql.parameters import Parameters, bind_parameters
from livingdb.sql.parse import parse_statement
from livingdb.sql.planner import Planner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["sql"]


def sql(
    db: Database,
    branch: object,
    text: str,
    parameters: Parameters = None,
    *,
    spark: SparkSession | None = None,
) -> DataFrame:
    """The answer of a query over the tables of a branch (or any ref), as it is now.

    What the branch holds is settled here: the data frame gives the same rows whenever it runs.
    The snapshots that it reads are kept while `db` is open and it, or one made from it, may run.
    """
    tree = parse_statement(text)
    if not isinstance(tree, exp.Query):
        raise Unsupported("a data frame is a query; changes are made with branch.sql")
    values = bind_parameters(tree, parameters)
    resolved = db._resolve(branch)
    scope: Any = SnapshotScope(db, resolved.snapshot, resolved.named)
    request = Planner(scope, values).request(tree, text, parameters)
    graph = db._graph
    places = [source.location for source in request.sources.values() if source.location]
    rows = [graph.resolve(f"id:{place.snapshot}").snapshot for place in places]
    lease = FrameLease(graph, rows)
    return lease.hold_for(SparkEngine(session(spark)).frame(request))
