"""The rows of an answer in batches of a size that clients take."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from livingdb.errors import LimitExceeded
from livingdb.server.flight.limits import FlightLimits
from livingdb.sql.query_plan import QueryPlan

__all__ = ["fetch"]


def fetch(
    plans: Sequence[QueryPlan], limits: FlightLimits
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of all plans, one after the other; closed early, it lets go of everything."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for part in _parts(_rows(plans, limits.rows), limits.batch_bytes):
        if held and held_bytes + part.nbytes > limits.batch_bytes:
            yield pa.concat_batches(held)
            held, held_bytes = [], 0
        held.append(part)
        held_bytes += part.nbytes
    if held:
        yield pa.concat_batches(held)


def _rows(plans: Sequence[QueryPlan], most: int) -> Iterator[pa.RecordBatch]:
    """The rows as they are computed; `LimitExceeded` if they are too many."""
    rows = 0
    for plan in plans:
        with closing(plan.open()) as stream:
            for batch in stream:
                rows += batch.num_rows
                if rows > most:
                    raise LimitExceeded(
                        f"the answer has more than {most:,} rows: ask for fewer, with LIMIT"
                    )
                yield batch


def _parts(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Batches in parts of about a size, at least a row each."""
    for batch in batches:
        parts = -(-batch.nbytes // size_bytes) or 1
        rows = max(1, -(-batch.num_rows // parts))
        for begin in range(0, max(batch.num_rows, 1), rows):
            yield batch.slice(begin, rows)
