"""What a disk may hold after the power went, given all that was asked of it before.

The model is the strict one: a file's bytes are safe after `fsync` of the file, a name is safe
after `fsync` of its folder, and everything else may be lost, torn or done out of order.  A
rename is one step: it happened or it did not.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

__all__ = ["DiskLog", "Loss"]

Loss: TypeAlias = Literal["drop", "tear", "reorder"]
"""What becomes of the unsynced: all lost; blocks lost, names in order; any write, any name."""

_LOSSES: tuple[Loss, ...] = ("drop", "tear", "reorder")
_BLOCK_BYTES = (512, 4096)
_FOLDER = -1


@dataclass(frozen=True, slots=True)
class _Write:
    node: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Truncate:
    """A file ends there; longer or shorter than it was."""

    node: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Sync:
    node: int
    kept: bool


@dataclass(frozen=True, slots=True)
class _Rename:
    """One change of a folder: a name goes, a name comes, or both."""

    folder: str
    gone: str | None
    came: str | None
    node: int


@dataclass(frozen=True, slots=True)
class _FolderSync:
    folder: str


_Change: TypeAlias = _Write | _Truncate
_Event: TypeAlias = _Change | _Sync | _Rename | _FolderSync


@dataclass(slots=True)
class _File:
    durable: bytes = b""
    pending: list[_Change] = field(default_factory=list)


@dataclass(slots=True)
class _Folder:
    durable: dict[str, int] = field(default_factory=dict)
    pending: list[_Rename] = field(default_factory=list)


class DiskLog:
    """All changes below a root since this was made; what was there before is safe."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)
        self._base_contents: list[bytes] = []
        self._base_folders: dict[str, dict[str, int]] = {}
        self._nodes: dict[str, int] = {}
        self._events: list[_Event] = []
        self._top = self._root
        while not os.path.isdir(self._top):
            self._top = os.path.dirname(self._top)
        self._base_folders[self._top] = {}
        if self._top == self._root:
            self._load()
        self._node_count = len(self._base_contents)

    def __len__(self) -> int:
        """How many changes there were: the number of the latest point a crash can be at."""
        return len(self._events)

    def log_create(self, path: str) -> int:
        """A new, empty file; its number."""
        node = self._node_count
        self._node_count += 1
        self._nodes[path] = node
        self._rename(path, came=True)
        return node

    def log_write(self, node: int, offset: int, data: bytes) -> None:
        self._events.append(_Write(node, offset, data))

    def node_of(self, path: str) -> int | None:
        """The number of the file that has a name now."""
        return self._nodes.get(path)

    def log_truncate(self, node: int, size_bytes: int) -> None:
        """Let a file end there."""
        self._events.append(_Truncate(node, size_bytes))

    def log_sync(self, node: int) -> None:
        self._events.append(_Sync(node, kept=True))

    def log_sync_failure(self, node: int) -> None:
        """The bytes not synced before will never be: a later sync finds nothing to do."""
        self._events.append(_Sync(node, kept=False))

    def log_mkdir(self, path: str) -> None:
        self._nodes[path] = _FOLDER
        self._rename(path, came=True)

    def log_folder_sync(self, path: str) -> None:
        self._events.append(_FolderSync(path))

    def log_remove(self, path: str) -> None:
        if path in self._nodes:
            self._rename(path, came=False)
            del self._nodes[path]

    def log_replace(self, source: str, target: str) -> None:
        node = self._nodes.pop(source)
        self._nodes[target] = node
        folder, gone = os.path.split(source)
        target_folder, came = os.path.split(target)
        if folder == target_folder:
            self._events.append(_Rename(folder, gone, came, node))
        else:
            self._events.append(_Rename(target_folder, None, came, node))
            self._events.append(_Rename(folder, gone, None, node))

    def write_image(
        self,
        target: str | os.PathLike[str],
        seed: int,
        *,
        loss: Loss | None = None,
        at: int | None = None,
    ) -> None:
        """Write into the folder `target` what the root may hold after a power loss.

        The same seed gives the same image.  `at` is how many changes had been made by then
        (all of them, unless given); `loss` is chosen by the seed unless given.
        """
        folders, files = self._replay(len(self._events) if at is None else at)
        dice = _Dice(seed, loss)
        survivors = {path: dice.names(folder) for path, folder in sorted(folders.items())}
        contents = {node: dice.content(file) for node, file in sorted(files.items())}
        os.makedirs(target, exist_ok=True)
        if self._root_survives(survivors):
            _write_folder(self._root, Path(target), survivors, contents)

    def _load(self) -> None:
        for folder, names, files in os.walk(self._root):
            entries = dict.fromkeys(names, _FOLDER)
            for name in files:
                path = os.path.join(folder, name)
                entries[name] = self._nodes[path] = len(self._base_contents)
                self._base_contents.append(Path(path).read_bytes())
            self._base_folders[folder] = entries

    def _rename(self, path: str, *, came: bool) -> None:
        folder, name = os.path.split(path)
        node = self._nodes[path]
        self._events.append(
            _Rename(folder, None, name, node) if came else _Rename(folder, name, None, node)
        )

    def _replay(self, count: int) -> tuple[dict[str, _Folder], dict[int, _File]]:
        """Every folder and file with what is safe and what is not after so many changes."""
        folders = {path: _Folder(dict(names)) for path, names in self._base_folders.items()}
        files = {node: _File(content) for node, content in enumerate(self._base_contents)}
        for event in self._events[:count]:
            match event:
                case _Write(node=node) | _Truncate(node=node):
                    files.setdefault(node, _File()).pending.append(event)
                case _Sync(node=node, kept=kept):
                    file = files.setdefault(node, _File())
                    if kept:
                        file.durable = _overlay(file.durable, file.pending)
                    file.pending.clear()
                case _Rename(folder=path):
                    folders.setdefault(path, _Folder()).pending.append(event)
                case _FolderSync(folder=path):
                    folder = folders.setdefault(path, _Folder())
                    _rename_all(folder.durable, folder.pending)
                    folder.pending.clear()
        return folders, files

    def _root_survives(self, survivors: dict[str, dict[str, int]]) -> bool:
        path = self._root
        while path != self._top:
            folder, name = os.path.split(path)
            if name not in survivors.get(folder, {}):
                return False
            path = folder
        return True


class _Dice:
    """Decides, by seed, what of the unsynced reached the disk."""

    def __init__(self, seed: int, loss: Loss | None) -> None:
        self._random = random.Random(seed)
        self._loss: Loss = self._random.choice(_LOSSES) if loss is None else loss
        self._block_bytes = self._random.choice(_BLOCK_BYTES)

    def names(self, folder: _Folder) -> dict[str, int]:
        """The folder's names after the crash."""
        names = dict(folder.durable)
        if self._loss == "tear":
            _rename_all(names, folder.pending[: self._random.randint(0, len(folder.pending))])
        elif self._loss == "reorder":
            _rename_all(names, [change for change in folder.pending if self._coin()])
        return names

    def content(self, file: _File) -> bytes:
        """The file's bytes after the crash."""
        if self._loss == "drop" or not file.pending:
            return file.durable
        if self._loss == "reorder":
            return _overlay(file.durable, [wrote for wrote in file.pending if self._coin()])
        blocks = [block for wrote in file.pending for block in self._blocks(wrote)]
        content = _overlay(file.durable, [block for block in blocks if self._coin()])
        if self._coin():
            ends = (w.offset + len(w.data) for w in file.pending if isinstance(w, _Write))
            content = content.ljust(max(ends, default=0), b"\0")
        return content

    def _blocks(self, wrote: _Change) -> Iterator[_Change]:
        """The write in pieces that end where the disk's blocks end."""
        if isinstance(wrote, _Truncate):
            yield wrote
            return
        start = 0
        while start < len(wrote.data):
            offset = wrote.offset + start
            stop = start + self._block_bytes - offset % self._block_bytes
            yield _Write(wrote.node, offset, wrote.data[start:stop])
            start = stop

    def _coin(self) -> bool:
        return self._random.random() < 0.5


def _overlay(content: bytes, writes: list[_Change]) -> bytes:
    """The content after the writes; what was never written in between is zero."""
    result = bytearray(content)
    for wrote in writes:
        if isinstance(wrote, _Truncate):
            del result[wrote.size_bytes :]
            result.extend(bytes(wrote.size_bytes - len(result)))
            continue
        if len(result) < wrote.offset:
            result.extend(bytes(wrote.offset - len(result)))
        result[wrote.offset : wrote.offset + len(wrote.data)] = wrote.data
    return bytes(result)


def _rename_all(names: dict[str, int], changes: list[_Rename]) -> None:
    for change in changes:
        if change.gone is not None:
            names.pop(change.gone, None)
        if change.came is not None:
            names[change.came] = change.node


def _write_folder(
    path: str, target: Path, survivors: dict[str, dict[str, int]], contents: dict[int, bytes]
) -> None:
    for name, node in survivors.get(path, {}).items():
        if node == _FOLDER:
            (target / name).mkdir(exist_ok=True)
            _write_folder(os.path.join(path, name), target / name, survivors, contents)
        else:
            (target / name).write_bytes(contents.get(node, b""))
