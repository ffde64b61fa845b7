"""The chunks of one database: those of open transactions, packs, and the catalog's journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Protocol

import numpy as np
import numpy.typing as npt

from livingdb.catalog.catalog import Catalog
from livingdb.chunks.address import ADDRESS_BYTES, Address
from livingdb.chunks.pack_store import PackStore
from livingdb.chunks.store import Buffer, StoredChunk
from livingdb.errors import Corruption, Forgotten, StorageFailure
from livingdb.files.base import Files

__all__ = ["JOURNAL_BYTES", "DatabaseStore", "StagedChunks"]


JOURNAL_BYTES = 256 << 10
_GRACE_SECONDS = 600.0
_DAY = 86_400_000_000
_FIRST_LEVEL_BYTES = 512 << 10
_NOWHERE = Address(bytes(ADDRESS_BYTES))


class StagedChunks(Protocol):
    """Chunks of an open transaction."""

    writes_packs: bool
    """Whether packs may be among what it writes."""

    def find(self, address: Address) -> Buffer | None:
        """The chunk, if it is among them."""
        ...


class DatabaseStore:
    """A `ChunkStore` over all places where chunks of a database are.

    A chunk moves from staging to the journal or a pack, and from the journal to a pack, and is
    in its new place before it leaves the old one.  Chunks of an open transaction are seen by
    everybody in this process: an address names the same bytes wherever they lie.  Of a reader who
    `is_unprotected` nobody knows: what is taken away is `Forgotten`.
    """

    def __init__(self, catalog: Catalog, files: Files, is_unprotected: bool = False):
        self.catalog = catalog
        self._is_unprotected = is_unprotected
        self.files = files
        self.journal = catalog.journal
        self.packs = PackStore(files, catalog.packs.names())
        self._erasures = 0
        self.redacted: set[Address] = set()
        """The records of which something was erased: nothing else is stored under their names."""
        self.read_redactions()
        self._staged: tuple[StagedChunks, ...] = ()
        self._gone: dict[str, float] = {}
        self._missed: set[Address] = set()
        self._forgotten_count = catalog.forgotten.count()
        self._lock = Lock()

    def get(self, address: Address) -> Buffer:
        """The stored bytes; `Corruption` if there is no such chunk or its pack is damaged."""
        for staged in self._staged:
            found = staged.find(address)
            if found is not None:
                return found
        if address in self.redacted:
            with suppress(Corruption):
                return self.journal.get(address)  # what it was may linger in packs
        try:
            return self.packs.get(address)
        except Corruption as error:
            damage = error
        try:
            return self.journal.get(address)
        except Corruption:
            pass
        self.refresh()
        with suppress(Corruption):
            return self.packs.get(address)  # which another thread may have refreshed
        with self._lock:
            self._missed.add(address)
        self._check_forgotten()
        raise damage

    @property
    def newest_erasure(self) -> int:
        """The number of the last erasure that this process knows of; 0 if there was none."""
        return self._erasures

    def read_redactions(self) -> bool:
        """Ask the catalog which records were redacted; whether that is news."""
        newest = self.catalog.erasures.newest()
        if newest == self._erasures:
            return False
        self.redacted.update(row.old for row in self.catalog.erasures.redactions())
        self._erasures = newest
        return True

    def get_many(self, addresses: Sequence[Address]) -> Mapping[Address, Buffer]:
        """The stored bytes of those that are in the journal."""
        return self.journal.get_many(addresses)

    def read_in_order(self, addresses: Iterable[Address]) -> Iterator[tuple[Address, Buffer]]:
        """Many chunks, in the order in which they lie; others come last, as `get` has them."""
        packed, rest = self._split(addresses)
        yield from self.packs.read_in_order(packed)
        yield from ((address, self.get(address)) for address in rest)

    def references(self, addresses: Iterable[Address]) -> set[Address]:
        """What chunks are stored against, near and far: dictionaries and the bases of patches."""
        found: set[Address] = set()
        waiting = set(addresses)
        while waiting:
            packed, _ = self._split(waiting)  # all others are stored by themselves
            waiting = self.packs.references(packed) - found
            found |= waiting
        return found

    def _split(self, addresses: Iterable[Address]) -> tuple[list[Address], list[Address]]:
        """Those of the addresses that are read from packs, and all others."""
        staged = self._staged
        wanted = list(dict.fromkeys(addresses))
        if not wanted:
            return [], []
        packed: list[Address] = []
        rest: list[Address] = []
        for address, is_there in zip(wanted, self.packs.contains(wanted).tolist(), strict=True):
            is_packed = is_there and address not in self.redacted
            if is_packed and staged:  # which may be about to redact it
                is_packed = all(each.find(address) is None for each in staged)
            (packed if is_packed else rest).append(address)
        return packed, rest

    def take_missed(self) -> set[Address]:
        """The chunks that somebody asked for in vain since this was asked last."""
        with self._lock:
            missed, self._missed = self._missed, set()
        return missed

    def _check_forgotten(self) -> None:
        """`Forgotten` where others, who cannot know of this reader, took away what it reads."""
        if self.catalog.forgotten.count() != self._forgotten_count:
            raise Forgotten(
                "what is being read was forgotten meanwhile, as the retention policy says; a lease "
                "would have kept it"
            )
        if not self._is_unprotected:
            return
        names = self.catalog.packs.names()
        if not all(self.files.exists(f"packs/{name}") for name in names):
            raise Forgotten(
                "files of the database were taken away since it was opened here: it could not be "
                "known that somebody reads them; open it again"
            )

    def contains(self, addresses: Sequence[Address]) -> npt.NDArray[np.bool_]:
        """Which of the addresses are here."""
        found = self.packs.contains(addresses)
        for place in np.flatnonzero(~found).tolist():
            found[place] = any(s.find(addresses[place]) is not None for s in self._staged)
        rest = np.flatnonzero(~found)
        if len(rest):
            found[rest] = self.journal.contains([addresses[place] for place in rest.tolist()])
        return found

    def put(self, chunks: Iterable[StoredChunk]) -> None:
        """Keep chunks that no transaction brings: cached answers, for instance."""
        kept = [chunk for chunk in chunks if chunk.address not in self.redacted]
        if sum(len(chunk.data) for chunk in kept) < JOURNAL_BYTES:
            self.journal.put(kept)
            return
        with self.packs.writer() as stream:
            stream.put(kept)
        if stream.names:
            levels = self.levels(stream.names)
            with self.catalog.write() as connection:
                self.catalog.packs.add(connection, levels)

    def addresses(self) -> Iterator[Address]:
        """Every address in packs or the journal, each once."""
        seen = set(self.journal.addresses())
        yield from seen
        yield from (address for address in self.packs.addresses() if address not in seen)

    def __len__(self) -> int:
        return sum(1 for _ in self.addresses())

    def refresh(self) -> bool:
        """Ask the catalog which packs there are now; whether that is news.

        Packs that count no more are read for some time still, by those here and by others:
        somebody may be in the middle of what they hold.
        """
        # In this order: what another thread reads from meanwhile is not taken for gone.
        known = set(self.packs.names)
        names = set(self.catalog.packs.names())
        new = [name for name in names if name not in known]
        if new:
            self.packs.add(*new)
        gone = known - names
        if gone:
            self.packs.retire(*gone)
        left = [name for name, _ in self.catalog.packs.retired_packs()]
        self.packs.linger(*left)
        moment = monotonic()
        with self._lock:
            self._gone |= dict.fromkeys(gone, moment)
            late = [name for name, since in self._gone.items() if moment - since > _GRACE_SECONDS]
            self._gone = {name: since for name, since in self._gone.items() if name not in late}
        if late:
            self.packs.remove(*late)
        return bool(new or left)

    def note_forgotten(self) -> None:
        """Who reads from here on knows what was forgotten until now."""
        self._forgotten_count = self.catalog.forgotten.count()

    def levels(self, names: Iterable[str]) -> dict[str, int]:
        """How large packs are: each level holds eight times as much as the one below."""
        sizes = {name: self.files.size(f"packs/{name}") for name in names}
        return {
            name: max(0, (size // _FIRST_LEVEL_BYTES).bit_length() - 1) // 3
            for name, size in sizes.items()
        }

    def retire_packs(self, names: Sequence[str]) -> None:
        """Remove the files of packs that count no more; those open here can still be read."""
        self.packs.contains([_NOWHERE])  # opens every pack
        self.refresh()
        for name in names:
            with suppress(StorageFailure):
                self.files.delete(f"packs/{name}")

    def sweep_retired(self, is_alone: bool, moment: int, leased_since: int | None) -> None:
        """Remove the files of retired packs that nobody can be reading any more.

        Alone with the database, that is all of them; else those retired a day ago, if the
        database is shared in a way that does not tell who uses it.  What was there when the oldest
        lease began stays while that counts: Spark's tasks read files without anybody knowing.
        """
        gone = [
            name
            for name, time in self.catalog.packs.retired_packs()
            if (is_alone or moment - time > _DAY) and (leased_since is None or time < leased_since)
        ]
        if not gone:
            return
        self.retire_packs(gone)
        with self.catalog.write() as connection:
            self.catalog.packs.forget(connection, gone)

    def drop_packs(self, names: Sequence[str]) -> None:
        """Read packs no more that never came to count, and remove their files."""
        self.packs.remove(*names)
        for name in names:
            with suppress(StorageFailure):
                self.files.delete(f"packs/{name}")

    @property
    def is_idle(self) -> bool:
        """Whether no transaction of this process is open that may have written packs."""
        return not any(staged.writes_packs for staged in self._staged)

    def unnamed_packs(self) -> list[str]:
        """Files of packs that the catalog does not name: of open transactions, or of killed ones.

        Whoever drops them has to know that nobody is about to name them.
        """
        named = set(self.catalog.packs.names())
        named.update(name for name, _ in self.catalog.packs.retired_packs())
        found = (path.removeprefix("packs/") for path in self.files.list("packs"))
        return [name for name in found if name not in named]

    # --- staging -----------------------------------------------------------------------------

    def attach(self, staged: StagedChunks) -> None:
        """Read from what an open transaction holds, too."""
        with self._lock:
            self._staged = (*self._staged, staged)

    def detach(self, staged: StagedChunks) -> None:
        """Read from it no more."""
        with self._lock:
            self._staged = tuple(other for other in self._staged if other is not staged)
