"""From a path or URL to the files behind it."""

from __future__ import annotations

import os
from pathlib import PurePath
from urllib.parse import unquote, urlsplit

from livingdb.errors import InvalidName, Unsupported
from livingdb.files.base import Files
from livingdb.files.local import LocalFiles

__all__ = ["check_place", "open_files", "url_text"]


def open_files(url: str) -> Files:
    """The files below a local path, a `file://`, an `s3://` or a `gs://` URL.

    Nothing is made or looked up yet: a root that is not there is one without files.
    """
    if not check_place(url):
        raise InvalidName("a path or URL is empty")
    scheme, separator, _ = url.partition("://")
    if not separator:
        return LocalFiles(url)
    if scheme == "file":
        return LocalFiles(_local_path(url))
    from livingdb.files.object_url import SCHEMES

    if scheme in SCHEMES:
        from livingdb.files.objects import ObjectFiles

        return ObjectFiles(url)
    raise Unsupported("files are kept below a local path, or a file://, s3:// or gs:// URL")


def url_text(what: str, url: object) -> str:
    """A path or URL as text; `InvalidName` for what is neither."""
    if not isinstance(url, (str, PurePath)):
        raise InvalidName(f"{what} is named by a path or a URL, not by {type(url).__name__}")
    return check_place(str(url))


def check_place(text: str) -> str:
    """A path or URL, if files can be there."""
    try:
        is_path = "\0" not in os.fsencode(text).decode("latin-1")
    except UnicodeEncodeError:
        is_path = False
    if not is_path:
        raise InvalidName(
            f"{text!r:.200} is no path or URL: it holds a null character, or half of a character"
        )
    return text


def _local_path(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise InvalidName("a file:// URL names a path on this machine, like file:///data/shop.ldb")
    if not parts.path.startswith("/"):
        raise InvalidName("a file:// URL holds an absolute path, like file:///data/shop.ldb")
    return unquote(parts.path)
