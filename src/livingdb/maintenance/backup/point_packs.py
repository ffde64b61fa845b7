"""Bringing the packs of a backup to a database, but for chunks that must not come back."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping

from livingdb.chunks.address import Address
from livingdb.chunks.pack_store import PackStore
from livingdb.chunks.repack_packs import write_again
from livingdb.errors import Corruption, NotFound
from livingdb.files.base import Buffer, Files, FileWriter
from livingdb.maintenance.backup.copy_file import CopiedFile, copy_file, digest_file

__all__ = ["PointPacks"]

Progress = Callable[[int, int], object]


class PointPacks:
    """Brings packs from a backup to a database."""

    def __init__(self, source: Files, target: Files, progress: Progress | None) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._done = 0
        self._total = 0

    def copy(self, packs: dict[str, CopiedFile]) -> None:
        """Copy packs that are not there yet; `Corruption` names one that is damaged."""
        self._total = sum(file.size_bytes for file in packs.values())
        there = set(self._target.list("packs"))
        for name, expected in packs.items():
            path = f"packs/{name}"
            if path in there and digest_file(self._target, path, self._step) == expected:
                continue
            try:
                found = copy_file(self._source, self._target, path, self._step, expected)
            except NotFound:
                raise self._damaged(name, "is missing") from None
            if found != expected:
                raise self._damaged(name)

    def have(self, packs: dict[str, CopiedFile], redacted: Mapping[Address, Address]) -> bool:
        """Whether one of the packs has a chunk that must not come back."""
        return bool(redacted) and bool(
            PackStore(self._source, packs).contains(list(redacted)).any()
        )

    def write_without(
        self, packs: dict[str, CopiedFile], redacted: Mapping[Address, Address]
    ) -> tuple[str, ...]:
        """Write the chunks of packs into new ones but those that must not come back."""
        self._total = sum(file.size_bytes for file in packs.values())
        for name, expected in packs.items():
            try:
                found = digest_file(self._source, f"packs/{name}", self._step)
            except NotFound:
                raise self._damaged(name, "is missing") from None
            if found != expected:
                raise self._damaged(name)
        store = PackStore(_FromTo(self._source, self._target), packs)
        pairs = {a: None for a in store.in_written_order() if a not in redacted}
        made, _ = write_again(store, tuple(packs), pairs)
        return made

    def _step(self, copied: int) -> None:
        self._done += copied
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _damaged(self, name: str, how: str = "is not as it was written") -> Corruption:
        return Corruption(
            f"the backup at {self._source.url} is damaged: packs/{name} {how}; an earlier or later "
            "point may do without it: `livingdb backup --check` names those files"
        )


class _FromTo(Files):
    """Files that are read from one place, and written to another one."""

    def __init__(self, source: Files, target: Files) -> None:
        self._source = source
        self._target = target

    @property
    def url(self) -> str:
        return self._target.url

    def _holder(self, path: str) -> Files:
        return self._target if self._target.exists(path) else self._source

    def read(self, path: str) -> bytes:
        return self._holder(path).read(path)

    def view(self, path: str) -> Buffer:
        return self._holder(path).view(path)

    def create(self, path: str) -> FileWriter:
        return self._target.create(path)

    def delete(self, path: str) -> None:
        self._target.delete(path)

    def exists(self, path: str) -> bool:
        return self._holder(path).exists(path)

    def size(self, path: str) -> int:
        return self._holder(path).size(path)

    def list(self, prefix: str = "") -> builtins.list[str]:
        return sorted({*self._source.list(prefix), *self._target.list(prefix)})

    def sweep(self, older_than_seconds: float) -> int:
        return self._target.sweep(older_than_seconds)
