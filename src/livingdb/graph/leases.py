"""Leases: a snapshot that somebody is in the middle of reading is never taken away.

A lease is a row of the catalog with a time until which it counts.  Whoever holds one puts that off
again and again, from a thread of its own; one whose process ended runs out, and is swept.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from livingdb.catalog.catalog import Catalog
from livingdb.catalog.forgotten import check_kept
from livingdb.catalog.ids import new_id
from livingdb.catalog.leases import LeaseRow
from livingdb.errors import LivingDBError

__all__ = ["LEASE_SECONDS", "Leases"]

LEASE_SECONDS = 120.0
_BEATS = 4
"""How often a lease is renewed while it would last."""


class Leases:
    """The leases of one database."""

    def __init__(self, catalog: Catalog):
        self._catalog = catalog

    @contextmanager
    def hold(
        self, sequence: int, holder: str, seconds: float = LEASE_SECONDS
    ) -> Iterator[LeaseRow]:
        """Keep the snapshot of a number while this lasts; `Forgotten` if it went before.

        `holder` says who and what for, as `collect_garbage(dry_run=True)` tells it.
        """
        lease = self.grant(sequence, holder, seconds)
        ended = Event()
        beat = Thread(target=self._beat, args=(lease.id, seconds, ended), daemon=True)
        beat.start()
        try:
            yield lease
        finally:
            ended.set()
            beat.join()
            with suppress(LivingDBError):
                self.drop([lease.id])

    def grant(self, sequence: int, holder: str, seconds: float) -> LeaseRow:
        """Keep the snapshot of a number for so long; `Forgotten` if it went before.

        For who cannot say when he is done with it, or puts that off with `renew`.
        """
        began = _now()
        lease = LeaseRow(new_id(), sequence, holder, began, began + _micros(seconds))
        with self._catalog.write() as connection:
            check_kept(connection, sequence)
            self._catalog.leases.sweep(connection, began)
            self._catalog.leases.add(connection, lease)
        return lease

    def renew(self, leases: Iterable[str], seconds: float) -> None:
        """Let leases last so long from now on."""
        until = _now() + _micros(seconds)
        with self._catalog.write() as connection:
            for lease in leases:
                self._catalog.leases.renew(connection, lease, until)

    def drop(self, leases: Iterable[str]) -> None:
        """Let go of leases."""
        with self._catalog.write() as connection:
            for lease in leases:
                self._catalog.leases.drop(connection, lease)

    def _beat(self, lease: str, seconds: float, ended: Event) -> None:
        while not ended.wait(seconds / _BEATS):
            with suppress(LivingDBError):
                self.renew([lease], seconds)

    def current(self) -> list[LeaseRow]:
        """The leases that count now."""
        moment = _now()
        return [lease for lease in self._catalog.leases.all() if lease.until >= moment]

    def sweep(self) -> int:
        """Remove leases that have run out; how many there were."""
        with self._catalog.write() as connection:
            return self._catalog.leases.sweep(connection, _now())


def _now() -> int:
    return clock.time_ns() // 1000


def _micros(seconds: float) -> int:
    return int(seconds * 1_000_000)
