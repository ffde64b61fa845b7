"""Files in memory: a twin assumed perfect."""

from __future__ import annotations

import builtins
import io
import threading

from livingdb.files.base import Files, FileWriter
from livingdb.files.failures import not_found
from livingdb.files.paths import check_folder, check_path

__all__ = ["MemoryFiles"]


class MemoryFiles(Files):
    """Keeps every promise of `Files`, for as long as the object lives."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"MemoryFiles({len(self._contents)} files)"

    @property
    def url(self) -> str:
        return "memory://"

    def read(self, path: str) -> bytes:
        try:
            return self._contents[check_path(path)]
        except KeyError:
            raise not_found(path) from None

    def view(self, path: str) -> memoryview:
        return memoryview(self.read(path))

    def create(self, path: str, *, cached: bool = True) -> FileWriter:
        return _MemoryWriter(self, check_path(path))

    def delete(self, path: str) -> None:
        with self._lock:
            self._contents.pop(check_path(path), None)

    def exists(self, path: str) -> bool:
        return check_path(path) in self._contents

    def size(self, path: str) -> int:
        return len(self.read(path))

    def list(self, prefix: str = "") -> builtins.list[str]:
        folder = check_folder(prefix)
        with self._lock:
            paths = sorted(self._contents)
        return [path for path in paths if not folder or path.startswith(folder + "/")]

    def sweep(self, older_than_seconds: float) -> int:
        """Nothing is ever left behind here."""
        return 0

    def _put(self, path: str, data: bytes) -> None:
        with self._lock:
            self._contents[path] = data


class _MemoryWriter(FileWriter):
    def __init__(self, files: MemoryFiles, path: str) -> None:
        super().__init__()
        self._files = files
        self._path = path
        self._buffer = io.BytesIO()

    def _append(self, data: memoryview) -> None:
        self._buffer.write(data)

    def _publish(self) -> None:
        self._files._put(self._path, self._buffer.getvalue())

    def _discard(self) -> None:
        self._buffer.close()
