"""Decoders end, or raise an error of ours, whatever they are given: small changes of a corpus."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fuzz.make_corpus import inputs
from tests.fuzz.targets import TARGETS
from tests.property.trying import SEED, tries

from livingdb.errors import LivingDBError

CORPUS = Path(__file__).parent / "corpus"
MOST_BYTES = 256 << 20
NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF]


def examples(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def changed(known: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Bytes turned, put in, left out, doubled, and parts of one put into another."""
    draw = random.Random(seed)
    for _ in range(count):
        data = bytearray(draw.choice(known))
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(data) + 1)
            act = draw.randrange(6)
            if act == 0 and data:
                data[at % len(data)] ^= 1 << draw.randrange(8)
            elif act == 1:
                data[at : at + 4] = draw.choice(NUMBERS).to_bytes(4, "little")
            elif act == 2:
                del data[at : at + draw.randint(1, 40)]
            elif act == 3:
                data[at:at] = data[at : at + draw.randint(1, 40)]
            elif act == 4:
                other = draw.choice(known)
                start = draw.randrange(len(other) + 1)
                data[at:at] = other[start : start + draw.randint(1, 60)]
            else:
                data[at:at] = draw.choice([b"\0", b"\xff", b"(", b"'", b"{", b"[", b"1e999"])
        yield bytes(data)


def run(name: str, data: bytes) -> None:
    try:
        TARGETS[name](data)
    except LivingDBError:
        return
    except BaseException as error:
        raise AssertionError(f"{name} of {data!r}") from error


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus(name: str) -> None:
    for data in examples(name):
        run(name, data)


def test_the_corpus_is_what_is_written_today() -> None:
    for name, some in inputs().items():
        known = examples(name)
        for data in some:
            run(name, data)
        assert len(known) >= len(some)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_changed_inputs(name: str) -> None:
    known = examples(name)
    tracemalloc.start()
    try:
        for data in changed(known, tries(2_000), seed=SEED + 7):
            run(name, data)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()
