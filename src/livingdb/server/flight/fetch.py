"""An answer on its way: batches of a size that clients take, as long as somebody reads them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from threading import Event, Lock, Thread
from typing import Any

import pyarrow as pa

from livingdb.engines.row_stream import RowStream
from livingdb.server.flight.failures import Stopped
from livingdb.server.flight.limits import FlightLimits
from livingdb.sql.query_plan import QueryPlan

__all__ = ["Fetch", "Watch"]

_LOOK_SECONDS = 0.05


class Fetch:
    """The rows of one answer while they are computed and sent.

    `stop` may come from any thread: what is computed ends, and the client is told why.
    """

    def __init__(self, plans: Sequence[QueryPlan], limits: FlightLimits):
        self._plans = iter(plans)
        self._limits = limits
        self._lock = Lock()
        self._stream: RowStream | None = None
        self._reason: Stopped | None = None
        self._rows = 0
        self._spent_seconds = 0.0
        self._since: float | None = None
        self._is_cancelled: Callable[[], bool] | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches of about the size that is allowed."""
        held: list[pa.RecordBatch] = []
        held_bytes = 0
        while (batch := self._next()) is not None:
            for part in _cut(batch, self._limits.batch_bytes):
                if held and held_bytes + part.nbytes > self._limits.batch_bytes:
                    yield _joined(held)
                    held, held_bytes = [], 0
                held.append(part)
                held_bytes += part.nbytes
        if held:
            yield _joined(held)

    def _next(self) -> pa.RecordBatch | None:
        """The next rows as they were computed; None after the last ones."""
        if self._reason is not None:
            raise self._reason
        self._since = time.monotonic()
        try:
            batch = self._computed()
        except Exception:
            if self._reason is not None:
                raise self._reason from None
            raise
        finally:
            self._spent_seconds += time.monotonic() - self._since
            self._since = None
        self._rows += 0 if batch is None else batch.num_rows
        if self._rows > self._limits.rows:
            raise Stopped(
                "limit_exceeded",
                f"the answer has more than {self._limits.rows:,} rows: ask for fewer, with LIMIT",
            )
        return batch

    def _computed(self) -> pa.RecordBatch | None:
        while True:
            if self._stream is None:
                plan = next(self._plans, None)
                if plan is None:
                    return None
                self._enter(plan.open())
            assert self._stream is not None
            batch = next(self._stream, None)
            if batch is not None:
                return batch
            self._stream = None

    def _enter(self, stream: RowStream) -> None:
        with self._lock:
            if self._reason is not None:
                stream.close()
                raise self._reason
            self._stream = stream

    # --- ending it early ---------------------------------------------------------------------

    def watch(self, is_cancelled: Callable[[], bool]) -> None:
        """How to find out whether the client has gone."""
        self._is_cancelled = is_cancelled

    def look(self) -> None:
        """Stop it if it took too long, or nobody is there any more."""
        with self._lock:
            has_gone = self._is_cancelled is not None and self._is_cancelled()
        since = self._since
        working = 0.0 if since is None else time.monotonic() - since
        if has_gone:
            self.stop("cancelled", "the client has gone")
        elif self._spent_seconds + working > self._limits.seconds:
            self.stop("timeout", f"the query took longer than {self._limits.seconds:g} seconds")

    def stop(self, code: str, message: str) -> None:
        """End it; what was being computed is interrupted."""
        with self._lock:
            if self._reason is None:
                self._reason = Stopped(code, message)
            if self._stream is not None:
                self._stream.interrupt()

    def close(self) -> None:
        """Let go of everything: the call has ended."""
        with self._lock:
            self._is_cancelled = None
            self._plans = iter(())
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


def _cut(batch: pa.RecordBatch, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """The batch in parts of about a size, at least a row each."""
    parts = -(-batch.nbytes // size_bytes) or 1
    rows = max(1, -(-batch.num_rows // parts))
    for begin in range(0, max(batch.num_rows, 1), rows):
        yield batch.slice(begin, rows)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


class Watch:
    """Looks after all answers that are on their way, in a thread of its own."""

    def __init__(self) -> None:
        self._fetches: set[Fetch] = set()
        self._lock = Lock()
        self._is_over = Event()
        self._thread = Thread(target=self._run, name="livingdb-flight-watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def __len__(self) -> int:
        return len(self._fetches)

    def add(self, fetch: Fetch, context: Any) -> None:
        """Look after an answer from now on."""
        fetch.watch(context.is_cancelled)
        with self._lock:
            self._fetches.add(fetch)

    def remove(self, fetch: Fetch) -> None:
        """Look after it no longer, and let go of it."""
        with self._lock:
            self._fetches.discard(fetch)
        fetch.close()

    def stop(self) -> None:
        """End all of them."""
        self._is_over.set()
        with self._lock:
            fetches = list(self._fetches)
        for fetch in fetches:
            fetch.stop("stopping", "the server stops")

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            with self._lock:
                fetches = list(self._fetches)
            for fetch in fetches:
                fetch.look()
