"""What a very large value costs: a few times its size, whoever writes or reads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SIZE_BYTES = 300_000_000
PROGRAM = """
import os, resource, sys
import livingdb

path, act, size, kind = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
if act == "write":
    db = livingdb.create(path, engine="embedded")
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "v": kind}, key="id")
    value = os.urandom(size) if kind == "binary" else os.urandom(size // 200).hex() * 100
    before = peak()
    main.insert("t", [{"id": 1, "v": value}])
elif act == "change":
    main = livingdb.open(path, engine="embedded").branch("main")
    value = os.urandom(size) if kind == "binary" else os.urandom(size // 200).hex() * 100
    before = peak()
    main.upsert("t", [{"id": 1, "v": value}])
else:
    main = livingdb.open(path, engine="embedded").branch("main")
    before = peak()
    if act == "read":
        assert main.table("t").to_arrow().nbytes >= size
    elif act == "get":
        assert len(main.table("t").get(1)["v"]) == size
    else:
        assert main.sql("SELECT v FROM t").to_arrow().nbytes >= size
print((peak() - before) / size)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "string"])
def test_memory_of_a_large_value(tmp_path: Path, kind: str) -> None:
    for act in ("write", "read", "get", "sql", "change", "read", "get"):
        place = str(tmp_path / "large.ldb")
        line = [sys.executable, "-c", PROGRAM, place, act, str(SIZE_BYTES), kind]
        done = subprocess.run(line, capture_output=True, text=True, timeout=240, check=True)
        assert float(done.stdout) <= 4, act
