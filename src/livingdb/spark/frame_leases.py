"""Leases of data frames: what a frame reads is not taken away while it may still run.

A frame that the driver made of an open database holds a lease for as long as it can run: it, or a
frame that was made from it, is referenced somewhere, the session has not stopped and the database
is open.  Spark tells when no frame is left that reads a relation: a weak reference to it is empty.

Of a frame that is read by path nobody tells when it ends.  It has a lease from when it was loaded,
and again from each time that a query over it is planned, for `READ_SECONDS`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from os import getpid
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import Forgotten, LivingDBError
from livingdb.graph.graph import Graph
from livingdb.graph.leases import LEASE_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["READ_SECONDS", "FrameLease", "lease_read"]

READ_SECONDS = 6 * 3_600.0
_BEAT_SECONDS = LEASE_SECONDS / 4

CanRun = Callable[[], bool]


def lease_read(graph: Graph, snapshot: SnapshotRow) -> None:
    """Keep a snapshot for who is about to read it, and does not tell when he is done."""
    _grant(graph, [snapshot], "a Spark job that reads by path", READ_SECONDS)


def _grant(graph: Graph, rows: Sequence[SnapshotRow], holder: str, seconds: float) -> list[str]:
    """The leases; none where nobody can write them down, as who reads there always has it."""
    if graph.place.refusal is not None:
        return []
    try:
        return [graph.leases.grant(row.sequence, holder, seconds).id for row in rows]
    except Forgotten:
        raise
    except LivingDBError:
        return []


class FrameLease:
    """The lease of a frame that is being made, and then of what is made from it."""

    def __init__(self, graph: Graph, snapshots: Iterable[SnapshotRow]) -> None:
        rows = list({row.sequence: row for row in snapshots}.values())
        holder = f"a data frame of process {getpid()} on {socket.gethostname()}"
        self._graph = graph
        self._leases = _grant(graph, rows, holder, LEASE_SECONDS)

    def hold_for(self, frame: DataFrame) -> DataFrame:
        """Hold it while the frame can run; the frame."""
        if self._leases:
            with _keeping:
                keeper = _keepers.get(self._graph)
                if keeper is None or not keeper.add(self._leases, _can_run(frame)):
                    keeper = _keepers[self._graph] = _Keeper(self._graph)
                    keeper.add(self._leases, _can_run(frame))
                    keeper.start()
        return frame


class _Keeper:
    """Renews the leases of the frames of one database, until none is left or it is closed."""

    def __init__(self, graph: Graph) -> None:
        self._graph = ref(graph)
        self._lock = Lock()
        self._held: dict[str, CanRun] = {}
        self._is_done = False
        self._waiting = Event()

    def start(self) -> None:
        """Begin to renew."""
        Thread(target=self._run, name="livingdb frame leases", daemon=True).start()

    def add(self, leases: Iterable[str], can_run: CanRun) -> bool:
        """Renew some more; False if nothing is renewed here any more."""
        with self._lock:
            if not self._is_done:
                self._held |= dict.fromkeys(leases, can_run)
            return not self._is_done

    def _run(self) -> None:
        while not self._waiting.wait(_BEAT_SECONDS) and self.beat():
            pass

    def beat(self) -> bool:
        """Let go of what cannot run any more, and renew the rest; whether there is any."""
        graph = self._graph()
        with self._lock:
            held = dict(self._held)
        over = [lease for lease, can_run in held.items() if not can_run()]
        is_open = graph is not None and _is_open(graph)
        if graph is not None and is_open:
            with suppress(LivingDBError):
                graph.leases.drop(over)
                graph.leases.renew([lease for lease in held if lease not in over], LEASE_SECONDS)
        with self._lock:
            for lease in over:
                del self._held[lease]
            self._is_done = not is_open or not self._held
            return not self._is_done


_keeping = Lock()
_keepers: WeakKeyDictionary[Graph, _Keeper] = WeakKeyDictionary()


def _is_open(graph: Graph) -> bool:
    try:
        graph.catalog.queries.check_open()
    except LivingDBError:
        return False
    return True


def _can_run(frame: DataFrame) -> CanRun:
    """What tells whether a frame, or one that was made from it, can still run.

    Of a frame of Spark Connect only the server knows: it can, as long as somebody may ask.
    """
    classic: Any = frame
    if ".connect." in type(frame).__module__:
        return lambda: True
    context = classic.sparkSession.sparkContext
    weak = context._jvm.java.lang.ref.WeakReference
    relations = [weak(relation) for relation in _relations(classic._jdf)]

    def can_run() -> bool:
        try:
            return context._jsc is not None and any(r.get() is not None for r in relations)
        except Exception:  # Py4J raises what it likes once the other side has gone
            return False

    return can_run


def _relations(frame: Any) -> list[Any]:
    """What a frame reads, as Spark's objects that all frames share which are made from it."""
    leaves = frame.queryExecution().analyzed().collectLeaves()
    found = []
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        kind = leaf.getClass().getSimpleName()
        if kind == "LogicalRelation":
            leaf = leaf.relation()
        elif kind == "DataSourceV2Relation":
            leaf = leaf.table()
        found.append(leaf)
    return found
