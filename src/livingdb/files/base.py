"""What every place that keeps files promises."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from typing import Protocol, Self, TypeAlias

__all__ = ["Buffer", "Data", "FileWriter", "Files"]

Data: TypeAlias = bytes | bytearray | memoryview


class Buffer(Protocol):
    """Sliceable bytes: a memory map of a local file, or a ranged reader of an object store."""

    def __len__(self) -> int: ...
    def __getitem__(self, span: slice, /) -> bytes | memoryview: ...


class FileWriter(ABC):
    """A file on its way in, invisible until it is committed.

    Use it in a `with` block and call `commit()` at its end.  Leaving the block without that,
    or any failing step, aborts: nothing becomes visible and what the name held before stays.
    A committed or aborted writer takes nothing more (`ValueError`).
    """

    def __init__(self) -> None:
        self._open = True

    def write(self, data: Data) -> None:
        """Append the data; what fails here ends the writer."""
        self._require_open()
        try:
            self._append(memoryview(data).cast("B"))
        except BaseException:
            self.abort()
            raise

    def commit(self) -> None:
        """Make the file visible under its name, whole and durable, replacing what was there."""
        self._require_open()
        try:
            self._publish()
        except BaseException:
            self.abort()
            raise
        self._open = False

    def abort(self) -> None:
        """Forget the file; after a commit, or a second time, this does nothing."""
        if self._open:
            self._open = False
            self._discard()

    def _require_open(self) -> None:
        if not self._open:
            raise ValueError("the file writer was already committed or aborted")

    @abstractmethod
    def _append(self, data: memoryview) -> None:
        """Take the bytes."""

    @abstractmethod
    def _publish(self) -> None:
        """Make what was taken visible and durable, and let go of everything held."""

    @abstractmethod
    def _discard(self) -> None:
        """Let go of everything held; never fails."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.abort()


class Files(Protocol):
    """Files below one root, named by relative paths with `/` between the parts.

    Paths go through `check_path`; `InvalidName` says what is wrong with one.  Folders are only
    parts of names: they need no making, and asking for one as if it were a file is `NotFound`.
    Whatever the disk or the store refuses is `StorageFailure`.
    """

    @property
    def url(self) -> str:
        """Where the root is: absolute, and without any secret."""
        ...

    def read(self, path: str) -> bytes:
        """The whole file; `NotFound` if there is none."""
        ...

    def view(self, path: str) -> Buffer:
        """The file's bytes, fetched as they are sliced; `NotFound` if there is none.

        Meant for files that are never replaced.  On a local disk a view outlives the deletion
        of its file; on an object store its later slices are then `NotFound`.
        """
        ...

    def create(self, path: str, *, cached: bool = True) -> FileWriter:
        """A writer of the file; nothing is visible before its `commit()`.

        If it need not be `cached`, since nobody is known to read it soon, large blocks may go from
        where they lie straight to the disk, which spares copying them.
        """
        ...

    def write(self, path: str, data: Data) -> None:
        """Put the whole file in place, replacing what was there: durable when this returns."""
        with self.create(path) as writer:
            writer.write(data)
            writer.commit()

    def delete(self, path: str) -> None:
        """Remove the file if it is there.  A power loss may bring it back."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        ...

    def size(self, path: str) -> int:
        """The file's length in bytes; `NotFound` if there is none."""
        ...

    def list(self, prefix: str = "") -> builtins.list[str]:
        """The paths of all files in that folder or deeper, sorted; `""` is the root.

        A folder that is not there has no files.  Files that are being written are not listed.
        """
        ...

    def sweep(self, older_than_seconds: float) -> int:
        """Remove what killed writers left behind that long ago; how many files that were."""
        ...
