"""The file seam: the only place in LivingDB that opens, syncs, renames and lists.

`open_files(url)` gives the `Files` behind a path, a `file://`, `s3://` or `gs://` URL.
Whatever is behind it, a file appears whole or not at all.
"""

from __future__ import annotations

from livingdb.files.base import Buffer, Data, Files, FileWriter
from livingdb.files.local import LocalFiles
from livingdb.files.objects import ObjectFiles
from livingdb.files.paths import check_path
from livingdb.files.url import open_files

__all__ = [
    "Buffer",
    "Data",
    "FileWriter",
    "Files",
    "LocalFiles",
    "ObjectFiles",
    "check_path",
    "open_files",
]
