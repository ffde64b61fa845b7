"""How fast a pack of a million chunks opens, how much memory that takes, and how lookups go.

Run as `python bench/pack_open.py`; `run()` gives the same figures as data.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from livingdb.chunks.address import Address
from livingdb.chunks.pack import Pack, PackWriter
from livingdb.chunks.store import StoredChunk
from livingdb.files.local import LocalFiles

__all__ = ["run"]

CHUNKS = 1_000_000
BODY_BYTES = 40
NAME = "large.pack"


def run() -> list[dict[str, Any]]:
    """The measurements: name, value, unit, and the bound it should stay under (or None)."""
    with tempfile.TemporaryDirectory() as folder:
        addresses = Random(1).randbytes(32 * CHUNKS)
        write_seconds = _write(Path(folder) / NAME, addresses)
        measured = json.loads(
            subprocess.run(
                [sys.executable, __file__, folder],
                input=addresses,
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
        )
    return [_measurement("pack_write_million", write_seconds, "s", None), *measured]


def _write(path: Path, addresses: bytes) -> float:
    start = time.perf_counter()
    with path.open("wb") as file:
        writer = PackWriter(file)
        for number in range(CHUNKS):
            address = Address(addresses[32 * number : 32 * number + 32])
            writer.add(StoredChunk(address, number.to_bytes(BODY_BYTES, "little")))
        writer.finish()
        os.fsync(file.fileno())
    return time.perf_counter() - start


def _measure(folder: str, addresses: bytes) -> list[dict[str, Any]]:
    """All that is measured in a process of its own."""
    files = LocalFiles(folder)
    wanted = Random(2).sample(range(CHUNKS), 10_000)
    some = [Address(addresses[32 * number : 32 * number + 32]) for number in wanted]
    elsewhere = [Address(Random(number).randbytes(32)) for number in range(10_000)]
    _forget(Path(folder) / NAME)
    gc.collect()
    before = _resident_bytes()
    start = time.perf_counter()
    pack = Pack(files.view(NAME), NAME)
    cold_seconds = time.perf_counter() - start
    opened_bytes = _resident_bytes() - before
    first_seconds = _best(lambda: pack.get(some[0]), 1)
    many_seconds = _best(lambda: pack.find(some), 1)
    searched_bytes = _resident_bytes() - before
    return [
        _measurement("pack_open_cold", cold_seconds * 1e3, "ms", 50),
        _measurement("pack_open", _best(lambda: Pack(files.view(NAME), NAME), 5) * 1e3, "ms", 50),
        _measurement("pack_open_memory", opened_bytes / 1e6, "MB", 50),
        _measurement("pack_first_get", first_seconds * 1e6, "µs", None),
        _measurement("pack_find_10k_first", many_seconds * 1e3, "ms", None),
        _measurement("pack_find_10k_memory", searched_bytes / 1e6, "MB", None),
        _measurement("pack_find_10k", _best(lambda: pack.find(some), 5) * 1e3, "ms", None),
        _measurement("pack_get", _best(lambda: [pack.get(a) for a in some], 3) * 1e2, "µs", 50),
        _measurement("pack_miss", _best(lambda: [a in pack for a in elsewhere], 3) * 1e2, "µs", 50),
        _measurement("pack_verify", _best(pack.verify, 1), "s", None),
    ]


def _best(action: Callable[[], object], times: int) -> float:
    """The shortest of several runs, in seconds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return min(taken)


def _measurement(name: str, value: float, unit: str, bound: float | None) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "bound": bound}


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _forget(path: Path) -> None:
    """Drop the file from the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(_measure(sys.argv[1], sys.stdin.buffer.read())))
    else:
        for line in run():
            print(json.dumps(line, ensure_ascii=False))
