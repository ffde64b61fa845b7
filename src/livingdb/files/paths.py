"""The one place where paths inside a `Files` root are checked."""

from __future__ import annotations

from livingdb.errors import InvalidName

__all__ = ["TEMPORARY_PREFIX", "check_folder", "check_path"]

TEMPORARY_PREFIX = ".tmp-"
"""How the names of files that are being written begin; no path may use it."""


def check_path(path: str) -> str:
    """The path as given; `InvalidName` unless it is relative, plain and stays below the root."""
    if "\\" in path or not path.isprintable():
        raise InvalidName(f"a file path may not hold backslashes or control characters: {path!r}")
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise InvalidName(f"a file path is relative, with no empty, '.' or '..' part: {path!r}")
        if part.startswith(TEMPORARY_PREFIX):
            raise InvalidName(f"names that begin with {TEMPORARY_PREFIX!r} are reserved: {path!r}")
    return path


def check_folder(prefix: str) -> str:
    """A folder's path without a `/` at its end; the empty one is the root."""
    return check_path(prefix.removesuffix("/")) if prefix else ""
