"""A pack of a million chunks opens without reading its index."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from livingdb.chunks.address import Address
from livingdb.chunks.pack import PackWriter
from livingdb.chunks.store import StoredChunk

BODY_BYTES = 40

MILLION = """
import json, resource, sys
from livingdb.chunks.pack import Pack
from livingdb.files.local import LocalFiles

def resident_bytes():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

files = LocalFiles(sys.argv[1])
Pack(files.view("small.pack")).verify()
before, faults_before = resident_bytes(), faults()
pack = Pack(files.view("large.pack"))
opened, faults_opened = resident_bytes(), faults()
address = bytes.fromhex(sys.argv[2])
body = bytes(pack.get(address))
print(json.dumps({
    "count": len(pack), "body": body.hex(),
    "opened_bytes": opened - before, "looked_up_bytes": resident_bytes() - before,
    "open_faults": faults_opened - faults_before,
}))
"""


def write_pack(path: Path, addresses: bytes) -> None:
    with path.open("wb") as file:
        writer = PackWriter(file)
        for number in range(len(addresses) // 32):
            address = Address(addresses[number * 32 : number * 32 + 32])
            writer.add(StoredChunk(address, number.to_bytes(BODY_BYTES, "little")))
        writer.finish()


@pytest.mark.slow
def test_opening_a_million_chunks_touches_little(tmp_path: Path) -> None:
    count = 1_000_000
    noise = Random(3).randbytes(count * 32)
    write_pack(tmp_path / "large.pack", noise)
    write_pack(tmp_path / "small.pack", noise[: 32 * 1_000])
    wanted = 123_456
    found = json.loads(
        subprocess.run(
            [
                sys.executable,
                "-c",
                MILLION,
                str(tmp_path),
                noise[wanted * 32 : wanted * 32 + 32].hex(),
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    assert found["count"] == count
    assert bytes.fromhex(found["body"]) == wanted.to_bytes(BODY_BYTES, "little")
    assert found["opened_bytes"] < 10_000_000
    assert found["looked_up_bytes"] < 50_000_000
    assert found["open_faults"] < 200
