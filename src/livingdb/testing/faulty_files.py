"""Local files that fail, stop or lose power where a test says so."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from livingdb.files.local import LocalFiles
from livingdb.files.syscalls import Syscalls
from livingdb.testing.power_loss import DiskLog

__all__ = ["Fault", "FaultyFiles", "FaultySyscalls", "Step", "StepKind"]

StepKind: TypeAlias = Literal[
    "create",
    "write",
    "fsync",
    "close",
    "replace",
    "unlink",
    "mkdir",
    "fsync_folder",
    "read",
    "map",
]


@dataclass(frozen=True, slots=True)
class Step:
    """One moment of one operation; `number` counts operations of all kinds from 1."""

    kind: StepKind
    path: str
    number: int
    moment: Literal["before", "middle", "after"]


@dataclass(frozen=True, slots=True)
class Fault:
    """The `nth` operation of a kind, or of any kind, fails; a lasting one goes on failing."""

    kind: StepKind | None
    nth: int = 1
    error: int = errno.EIO
    lasting: bool = False

    def is_due(self, kind: StepKind, counts: Counter[StepKind]) -> bool:
        """Whether the operation just counted is one that fails."""
        if self.kind is None:
            count = counts.total()
        elif self.kind == kind:
            count = counts[kind]
        else:
            return False
        return count >= self.nth if self.lasting else count == self.nth


class FaultyFiles(LocalFiles):
    """Local files whose every step can be watched, made to fail, and lost.

    `faults` say which operations fail.  `on_step` is called before and after each operation,
    and in the middle of a write, when half of it is done: a test may kill the process there.
    With `power_loss`, all changes are kept apart in `disk`, which makes images of what the
    disk might hold had the power gone; it knows only what goes through this object or was
    there when it was made.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        faults: Iterable[Fault] = (),
        on_step: Callable[[Step], None] | None = None,
        power_loss: bool = False,
    ) -> None:
        self._disk = DiskLog(os.path.abspath(root)) if power_loss else None
        self._faulty = FaultySyscalls(faults, on_step, self._disk)
        super().__init__(root, syscalls=self._faulty)

    @property
    def disk(self) -> DiskLog:
        """The changes so far; only with `power_loss=True`."""
        if self._disk is None:
            raise ValueError("open FaultyFiles with power_loss=True to keep a log of the disk")
        return self._disk

    @property
    def counts(self) -> Counter[StepKind]:
        """How many operations of each kind there were."""
        return self._faulty.counts.copy()

    def heal(self) -> None:
        """No operation fails any more."""
        self._faulty.faults = ()


class FaultySyscalls(Syscalls):
    """The real steps, each counted, watched, failed where a fault is due, and logged."""

    def __init__(
        self,
        faults: Iterable[Fault] = (),
        on_step: Callable[[Step], None] | None = None,
        disk: DiskLog | None = None,
    ) -> None:
        self.faults = tuple(faults)
        self.counts: Counter[StepKind] = Counter()
        self._on_step = on_step
        self._disk = disk
        self._lock = threading.RLock()
        self._open: dict[int, _OpenFile] = {}

    def create(self, path: str) -> int:
        with self._lock:
            number = self._begin("create", path)
            descriptor = super().create(path)
            node = self._disk.log_create(path) if self._disk is not None else 0
            self._open[descriptor] = _OpenFile(path, node)
            self._end("create", path, number)
            return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        with self._lock:
            file = self._open[descriptor]
            number = self._count("write", file.path)
            half = len(data) // 2
            written = self._write(descriptor, data[:half])
            self._announce(Step("write", file.path, number, "middle"))
            self._fail("write", file.path)
            if written == half:
                written += self._write(descriptor, data[half:])
            self._end("write", file.path, number)
            return written

    def fsync(self, descriptor: int) -> None:
        with self._lock:
            file = self._open[descriptor]
            number = self._count("fsync", file.path)
            try:
                self._fail("fsync", file.path)
                super().fsync(descriptor)
            except OSError:
                if self._disk is not None:
                    self._disk.log_sync_failure(file.node)
                raise
            if self._disk is not None:
                self._disk.log_sync(file.node)
            self._end("fsync", file.path, number)

    def close(self, descriptor: int) -> None:
        with self._lock:
            path = self._open.pop(descriptor).path
            number = self._count("close", path)
            super().close(descriptor)
            self._fail("close", path)
            self._end("close", path, number)

    def replace(self, source: str, target: str) -> None:
        with self._lock:
            number = self._begin("replace", target)
            super().replace(source, target)
            if self._disk is not None:
                self._disk.log_replace(source, target)
            self._end("replace", target, number)

    def unlink(self, path: str) -> None:
        with self._lock:
            number = self._begin("unlink", path)
            super().unlink(path)
            if self._disk is not None:
                self._disk.log_remove(path)
            self._end("unlink", path, number)

    def mkdir(self, path: str) -> None:
        with self._lock:
            number = self._begin("mkdir", path)
            super().mkdir(path)
            if self._disk is not None:
                self._disk.log_mkdir(path)
            self._end("mkdir", path, number)

    def fsync_folder(self, path: str) -> None:
        with self._lock:
            number = self._begin("fsync_folder", path)
            super().fsync_folder(path)
            if self._disk is not None:
                self._disk.log_folder_sync(path)
            self._end("fsync_folder", path, number)

    def read(self, path: str) -> bytes:
        with self._lock:
            number = self._begin("read", path)
            data = super().read(path)
            self._end("read", path, number)
            return data

    def map(self, path: str) -> memoryview:
        with self._lock:
            number = self._begin("map", path)
            view = super().map(path)
            self._end("map", path, number)
            return view

    def _write(self, descriptor: int, data: memoryview) -> int:
        """The real write, logged as far as it went."""
        written = super().write(descriptor, data)
        file = self._open[descriptor]
        if self._disk is not None and written:
            self._disk.log_write(file.node, file.offset, bytes(data[:written]))
        file.offset += written
        return written

    def _begin(self, kind: StepKind, path: str) -> int:
        """Count and announce an operation that fails, if it does, before it has any effect."""
        number = self._count(kind, path)
        self._fail(kind, path)
        return number

    def _count(self, kind: StepKind, path: str) -> int:
        self.counts[kind] += 1
        number = self.counts.total()
        self._announce(Step(kind, path, number, "before"))
        return number

    def _end(self, kind: StepKind, path: str, number: int) -> None:
        self._announce(Step(kind, path, number, "after"))

    def _announce(self, step: Step) -> None:
        if self._on_step is not None:
            self._on_step(step)

    def _fail(self, kind: StepKind, path: str) -> None:
        for fault in self.faults:
            if fault.is_due(kind, self.counts):
                raise OSError(fault.error, os.strerror(fault.error), path)


@dataclass(slots=True)
class _OpenFile:
    path: str
    node: int
    offset: int = 0
