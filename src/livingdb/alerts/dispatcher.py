"""Sending what is in the outbox: beside the work of the database, never in its way.

Each sink has a lane of its own: a thread that claims a row, sends it outside any transaction and
writes down what became of it, one row after the other.  A sink that hangs holds up its own lane
only.  A row that was claimed by a program that was killed since is sent again when the claim
lapses, under the same key.
"""

from __future__ import annotations

import logging
import random
import threading
import time as clock
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from livingdb.alerts.outbox import Delivery, back_off_seconds, message_of, sink_of
from livingdb.alerts.raise_alert import printable
from livingdb.alerts.sinks import Sink
from livingdb.catalog.outbox import FAILED, SENT, WAITING, OutboxRow
from livingdb.errors import InvalidData, LivingDBError
from livingdb.graph.graph import Graph, now

__all__ = ["Dispatcher"]

_log = logging.getLogger("livingdb")
_Answer = TypeVar("_Answer")

_GRACE_SECONDS = 30.0
"""How long a claim outlives the sink's own patience."""
_LANES, _STUCK = 16, 4
"""How many sinks are served at a time, and how many sends to one may hang."""
_LINGER_SECONDS, _PAUSES = 10.0, (0.01, 0.5)
"""For how long to look for what a transaction that may not have ended yet leaves here."""
_REST_SECONDS, _LOOK_SECONDS = 5.0, 0.2
_PAUSE_SECONDS = 2.0
"""For how long to leave a catalog alone that cannot be read or written."""
_ERROR_LENGTH = 1000


class _Lane:
    """One thread that sends to one sink; `since` is when the send under way began."""

    def __init__(self, sink: Sink, work: Callable[[_Lane], None]):
        self.sink = sink
        self.since: float | None = None
        self.thread = threading.Thread(
            target=work, args=(self,), name="livingdb-alerts-lane", daemon=True
        )

    @property
    def is_hanging(self) -> bool:
        """Whether it has been sending for longer than the sink may take."""
        since = self.since
        patience = self.sink.timeout_seconds + _GRACE_SECONDS
        return since is not None and clock.monotonic() - since > patience


class Dispatcher:
    """Sends the alerts of one open database from this process."""

    def __init__(self, graph: Graph, trust: Sequence[str], time: Callable[[], int] = now):
        self._graph = graph
        self._trust = tuple(trust)
        self._time = time
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None
        self._linger_until = 0.0
        self._lanes: dict[str, list[_Lane]] = {}
        self._listeners: list[list[Delivery]] = []
        self._reading, self._marking = threading.Lock(), threading.Lock()
        self._closed, self._ended = False, threading.Event()
        self._paused_until = 0.0
        self._distrusted: set[str] = set()

    # --- from outside ------------------------------------------------------------------------

    def wake(self) -> None:
        """Something is or will soon be in the outbox; comes back at once."""
        with self._lock:
            if self._closed:
                return
            self._linger_until = clock.monotonic() + _LINGER_SECONDS
            self._woken.set()
            if self._thread is not None and self._thread.is_alive():
                return
            thread = threading.Thread(target=self._run, name="livingdb-alerts", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # Whoever raised the alert must not fail for it; the runner sends it.
                _log.warning("alerts wait in the outbox: %s", error)
                return
            self._thread = thread

    def wake_if_needed(self) -> None:
        """Go on with what others have left."""
        if self.sendable_sinks():
            self.wake()

    def deliver(self, wait_seconds: float | None = None) -> list[Delivery]:
        """Send what is due now and wait for it, but not for longer; what was done meanwhile."""
        deadline = None if wait_seconds is None else clock.monotonic() + wait_seconds
        moment = self._time()
        done: list[Delivery] = []
        served: set[str] = set()
        with self._lock:
            self._listeners.append(done)
        try:
            while True:
                self._start_lanes(moment, served)
                lanes = self._busy_lanes()
                if not lanes:
                    return list(done)
                for lane in lanes:
                    left = _LOOK_SECONDS if deadline is None else deadline - clock.monotonic()
                    lane.thread.join(min(_LOOK_SECONDS, max(0.0, left)))
                if deadline is not None and clock.monotonic() >= deadline:
                    return list(done)
        finally:
            with self._lock:
                self._listeners = [one for one in self._listeners if one is not done]

    def close(self, wait_seconds: float = 1.0) -> None:
        """Send what this process left, if it goes fast; nothing is written from here afterwards."""
        try:
            if self._thread is not None or self._busy_lanes():
                self.deliver(wait_seconds)
        except LivingDBError as error:
            _log.warning("alerts wait in the outbox: %s", error)
        with self._lock:
            self._closed = True
        self._ended.set()
        self._woken.set()
        # A connection must not be closed while a thread reads from it.
        with self._reading:
            pass
        if self._marking.acquire(timeout=wait_seconds):
            self._marking.release()

    # --- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        pause = _PAUSES[0]
        while not self._closed:
            self._ended.wait(max(0.0, self._paused_until - clock.monotonic()))
            self._woken.clear()
            try:
                self._start_lanes(self._time(), set())
                waiting = self.sendable_sinks()
            except Exception as error:
                self._pause_after_error(error)
                continue
            lingers = clock.monotonic() < self._linger_until
            if not waiting and not self._busy_lanes() and not lingers and self._try_to_end():
                return
            rest = _REST_SECONDS
            if waiting:
                rest = min(rest, max(0.0, (min(waiting.values()) - self._time()) / 1e6))
            if lingers:
                pause = min(pause * 1.5, _PAUSES[1])
                rest = min(rest, pause)
            if self._woken.wait(max(rest, _PAUSES[0])):
                pause = _PAUSES[0]

    def _try_to_end(self) -> bool:
        """Whether the thread may end: nobody has woken it meanwhile."""
        with self._lock:
            if self._woken.is_set():
                return False
            self._thread = None
            return True

    def sendable_sinks(self) -> dict[str, int]:
        """The sinks this process can send to that something waits for, and from when on."""
        found = self._read_catalog(self._graph.catalog.outbox.waiting_sinks) or {}
        return {
            text: due
            for text, due in found.items()
            if self._can_send(text) and self._has_free_lane(text)
        }

    def _read_catalog(self, ask: Callable[[], _Answer]) -> _Answer | None:
        """What the catalog says; None if the database is closed."""
        with self._reading:
            return None if self._closed else ask()

    def _can_send(self, text: str) -> bool:
        try:
            sink = sink_of(text)
        except InvalidData:
            return False
        if sink.may_run(self._trust):
            return True
        if text not in self._distrusted:
            self._distrusted.add(text)
            _log.warning("alerts wait: this process does not trust the sink %s", sink.label)
        return False

    def _has_free_lane(self, text: str) -> bool:
        """Whether a lane can begin for a sink: none is at work, and not too many hang."""
        with self._lock:
            lanes = self._live_lanes(text)
            return len(lanes) < _STUCK and all(lane.is_hanging for lane in lanes)

    def _live_lanes(self, text: str) -> list[_Lane]:
        lanes = [lane for lane in self._lanes.get(text, ()) if lane.thread.is_alive()]
        if lanes:
            self._lanes[text] = lanes
        else:
            self._lanes.pop(text, None)
        return lanes

    def _busy_lanes(self) -> list[_Lane]:
        """The lanes at work, without those that hang."""
        with self._lock:
            lanes = [lane for text in list(self._lanes) for lane in self._live_lanes(text)]
            return [lane for lane in lanes if not lane.is_hanging]

    def _start_lanes(self, moment: int, served: set[str]) -> None:
        """Let lanes begin for what is due at a time, one for each sink that had none."""
        for text, due in self.sendable_sinks().items():
            if due > moment or text in served or len(self._busy_lanes()) >= _LANES:
                continue
            with self._lock:
                lanes = self._live_lanes(text)
                if self._closed or any(not lane.is_hanging for lane in lanes):
                    continue
                lane = _Lane(sink_of(text), partial(self._run_lane, text, moment))
                self._lanes[text] = [*lanes, lane]
                lane.thread.start()
                served.add(text)

    # --- one lane ----------------------------------------------------------------------------

    def _run_lane(self, text: str, moment: int, lane: _Lane) -> None:
        """Send what was due for a sink at a time."""
        try:
            while not self._closed:
                rows = self._read_catalog(
                    partial(self._graph.catalog.outbox.due_rows, text, moment)
                )
                if not rows:
                    break
                for row in rows:
                    if self._closed:
                        return
                    self._deliver_row(lane, row)
                    if lane.is_hanging:
                        return
        except Exception as error:
            self._pause_after_error(error)
        finally:
            self._woken.set()

    def _pause_after_error(self, error: Exception) -> None:
        """The catalog could not be read or written: tell, and leave it alone for a while."""
        self._paused_until = clock.monotonic() + _PAUSE_SECONDS
        if not self._closed:
            trace = None if isinstance(error, LivingDBError) else error
            _log.warning("alerts cannot be sent now: %s", error, exc_info=trace)

    def _deliver_row(self, lane: _Lane, row: OutboxRow) -> None:
        """Claim a row, send it, and write down what became of it."""
        outbox, sink = self._graph.catalog.outbox, lane.sink
        lease = sink.timeout_seconds + _GRACE_SECONDS
        with self._marking:
            if self._closed:
                return
            with self._graph.catalog.write() as connection:
                if row.attempts >= sink.attempts:
                    error = row.error or "no program that tried to send it ended its attempt"
                    if outbox.give_up(connection, row, error):
                        self._notify_listeners(
                            Delivery(row.alert, sink.label, FAILED, row.attempts, error)
                        )
                    return
                claim = outbox.claim(connection, row, self._time() + int(lease * 1e6))
        if claim is None:
            return
        message = self._read_catalog(partial(message_of, self._graph, claim))
        if message is not None:
            self._record_result(sink, claim, self._send_message(lane, message))

    def _send_message(self, lane: _Lane, message: Mapping[str, Any]) -> str | None:
        """Send; None if it went well, else why not."""
        lane.since = clock.monotonic()
        try:
            lane.sink.send(message, self._trust)
        except LivingDBError as error:
            return printable(str(error))[:_ERROR_LENGTH]
        except Exception as error:
            return printable(f"{type(error).__name__}: {error}")[:_ERROR_LENGTH]
        except SystemExit:
            return "the function asked the program to end"
        else:
            return None
        finally:
            if not lane.is_hanging:
                lane.since = None

    def _record_result(self, sink: Sink, claim: OutboxRow, problem: str | None) -> None:
        outbox = self._graph.catalog.outbox
        with self._marking:
            if self._closed:
                return
            with self._graph.catalog.write() as connection:
                if problem is None:
                    outbox.mark_sent(connection, claim.id)
                    state = SENT
                elif claim.attempts >= sink.attempts:
                    outbox.give_up(connection, claim, problem)
                    state = FAILED
                else:
                    wait = back_off_seconds(claim.attempts, random.random())
                    outbox.retry_later(connection, claim, self._time() + int(wait * 1e6), problem)
                    state = WAITING
        self._notify_listeners(
            Delivery(claim.alert, sink.label, state, claim.attempts, problem or "")
        )

    def _notify_listeners(self, delivery: Delivery) -> None:
        with self._lock:
            for listener in self._listeners:
                listener.append(delivery)
