"""Bringing the packs of a backup to a database."""

from __future__ import annotations

from collections.abc import Callable

from livingdb.errors import Corruption, NotFound
from livingdb.files.base import Files
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

    def _step(self, copied: int) -> None:
        self._done += copied
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _damaged(self, name: str, how: str = "is not as it was written") -> Corruption:
        return Corruption(
            f"the backup at {self._source.url} is damaged: packs/{name} {how}; an earlier or later "
            "point may do without it: `livingdb backup --check` names those files"
        )
