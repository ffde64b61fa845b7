"""Chunks have the sizes they should, end where they always did, and move only near a change."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pytest

from livingdb.chunks.address import digest
from livingdb.trees.keys import KeyArray, hash_keys, key_lengths
from livingdb.trees.splitter import CapacitySplitter, ContentSplitter, Splitter, _thresholds

COUNT = 200_000
FIRST = np.uint64(1 << 63)  # the encoded form of the integer 0

Sizes = npt.NDArray[np.int64]


@lru_cache(maxsize=1)
def random_keys() -> KeyArray:
    drawn = np.random.default_rng(7).integers(0, 1 << 63, COUNT + 500, dtype=np.uint64)
    return np.unique(drawn)[:COUNT]


def sequential_keys() -> KeyArray:
    return FIRST + np.arange(COUNT, dtype=np.uint64)


def text_keys() -> KeyArray:
    return np.char.add(b"customer-", np.char.zfill(np.arange(COUNT).astype("S6"), 6))


def sizes(splitter: Splitter, keys: KeyArray, level: int = 0) -> Sizes:
    return np.diff(splitter.ends(keys, level, True), prepend=0)


# --- sizes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [random_keys, sequential_keys, text_keys])
@pytest.mark.parametrize("target", [64, 256])
@pytest.mark.parametrize("level", [0, 1])
def test_sizes_vary_little_around_the_target(keys, target: int, level: int) -> None:  # type: ignore[no-untyped-def]
    found = sizes(ContentSplitter(target, target), keys(), level)
    assert found.sum() == COUNT
    closed = found[:-1]  # the last chunk ended because the keys did
    assert abs(closed.mean() / target - 1) < 0.03
    assert closed.std() / closed.mean() < 0.35


def test_levels_split_independently() -> None:
    """Else the last keys of leaves, all of which closed a chunk, would close every node."""
    ends = [set(ContentSplitter(64, 64).ends(random_keys(), level, True)) for level in (1, 2)]
    assert len(ends[0] & ends[1]) < 0.1 * len(ends[0])


# --- caps -----------------------------------------------------------------------------------


def unwilling_keys(count: int, level: int) -> KeyArray:
    """Keys whose hashes would close no chunk."""
    keys = np.arange(4000 * count, dtype=np.uint64)
    unwilling = hash_keys(keys, level) >> np.uint64(32) >= np.uint64(0.999 * 2**32)
    return keys[unwilling][:count]


@pytest.mark.parametrize("level", [0, 1])
def test_a_chunk_has_at_most_twice_its_target(level: int) -> None:
    keys = unwilling_keys(100, level)
    assert sizes(ContentSplitter(8, 8), keys, level).tolist() == [16] * 6 + [4]


def test_key_bytes_close_a_chunk_after_the_key_that_reaches_the_cap() -> None:
    keys = np.array([b"%09d" % n for n in range(40)])
    assert sizes(ContentSplitter(1000, 1000, max_key_bytes=45), keys).tolist() == [5] * 8
    assert sizes(ContentSplitter(1000, 1000, max_key_bytes=46), keys).tolist() == [6] * 6 + [4]


def test_key_bytes_are_counted_alike_in_every_representation() -> None:
    keys = np.array([b"k" * (1 + n % 7) + b"%03d" % n for n in range(300)])
    splitter = ContentSplitter(64, 64, max_key_bytes=90)
    expected = splitter.ends(keys, 0, True).tolist()
    assert splitter.ends(keys.astype("S80"), 0, True).tolist() == expected
    assert splitter.ends(keys.astype(object), 0, True).tolist() == expected


def test_an_interior_node_takes_two_children_however_long_their_keys() -> None:
    """Else every level would have as many nodes as the one below, and there were no root."""
    keys = np.array([b"k" * 500 + b"%02d" % n for n in range(9)])
    splitter = ContentSplitter(8, 8, max_key_bytes=100)
    assert sizes(splitter, keys, level=0).tolist() == [1] * 9
    assert sizes(splitter, keys, level=1).tolist() == [2, 2, 2, 2, 1]


# --- what an end depends on -----------------------------------------------------------------


def test_an_end_depends_on_the_keys_of_its_own_chunk_only() -> None:
    keys, splitter = random_keys()[:5000], ContentSplitter(32)
    ends = splitter.ends(keys, 0, False)
    starts = np.concatenate([[0], ends[:-1]])
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        assert splitter.ends(keys[start:end], 0, False).tolist() == [end - start]
        assert splitter.ends(keys[start : end - 1], 0, False).tolist() == []
        assert splitter.ends(keys[start:], 0, False)[0] == end - start


def test_the_end_of_the_keys_is_a_boundary_only_when_final() -> None:
    keys, splitter = random_keys()[:1000], ContentSplitter(32)
    closed, final = splitter.ends(keys, 0, False), splitter.ends(keys, 0, True)
    assert final.tolist() == [*closed.tolist(), 1000]
    whole = int(closed[-1])
    assert splitter.ends(keys[:whole], 0, True).tolist() == closed.tolist()
    assert splitter.ends(keys[:0], 0, True).tolist() == []


def plainly(splitter: ContentSplitter, keys: KeyArray, level: int) -> list[int]:
    """The rule, item by item: what `ContentSplitter.ends` must give when not final."""
    target = splitter.target_rows if level == 0 else splitter.fanout
    scale = target / math.gamma(1.25)
    hashes = (hash_keys(keys, level) >> np.uint64(32)).tolist()
    lengths = key_lengths(keys).tolist()
    ends: list[int] = []
    items = key_bytes = 0
    for place, (value, length) in enumerate(zip(hashes, lengths, strict=True)):
        items += 1
        key_bytes += length
        hazard = -math.expm1(((items - 1) / scale) ** 4 - (items / scale) ** 4)
        full = items >= 2 * target or key_bytes >= splitter.max_key_bytes
        if (full or value < math.floor(hazard * 2**32)) and (level == 0 or items >= 2):
            ends.append(place + 1)
            items = key_bytes = 0
    return ends


@pytest.mark.parametrize("level", [0, 1, 3])
@pytest.mark.parametrize("target", [1, 2, 3, 8, 50])
@pytest.mark.parametrize("max_key_bytes", [1, 40, 300, 1 << 20])
def test_ends_are_those_of_the_plain_rule(level: int, target: int, max_key_bytes: int) -> None:
    splitter = ContentSplitter(target, target, max_key_bytes)
    words = np.array([b"w" * (n * n % 13) + b"%04d" % n for n in range(1500)])
    for keys in (random_keys()[:3000], sequential_keys()[:3000], words, words.astype(object)):
        assert splitter.ends(keys, level, False).tolist() == plainly(splitter, keys, level)


def test_golden_boundaries() -> None:
    """A change here is a change of the format: every root of every database moves."""
    splitter = ContentSplitter(8, 4)
    numbers = FIRST + np.arange(60, dtype=np.uint64)
    words = np.array([b"word-%02d" % n for n in range(60)])
    assert {
        "numbers": splitter.ends(numbers, 0, False).tolist(),
        "words": splitter.ends(words, 0, False).tolist(),
        "nodes": splitter.ends(words, 1, False).tolist(),
        "roots": splitter.ends(words, 2, False).tolist(),
    } == GOLDEN


GOLDEN = {
    "numbers": [8, 17, 22, 29, 36, 48, 56],
    "words": [6, 16, 28, 35, 42, 49],
    "nodes": [5, 9, 14, 19, 23, 27, 30, 36, 42, 48, 53, 59],
    "roots": [4, 10, 14, 17, 20, 25, 30, 35, 40, 45, 50, 54, 58],
}


def test_golden_thresholds() -> None:
    """They come of floating point: a machine that rounds otherwise must not go unnoticed."""
    found = [_thresholds(4096, 1), _thresholds(256, 2)]
    assert [digest(array.astype("<i8").tobytes()).hex()[:16] for array in found] == [
        "1c2d453a42a8c2ef",
        "9315baf951bb39ec",
    ]


def test_golden_hashes() -> None:
    """The key hash is the same on every machine, for every representation."""
    assert [f"{h:016x}" for h in hash_keys(np.arange(2, dtype=np.uint64) + FIRST, 1)] == HASHES[:2]
    texts = np.array([b"", b"a", b"abcdefgh", b"abcdefghi"])
    assert [f"{h:016x}" for h in hash_keys(texts, 0)] == HASHES[2:]


HASHES = [
    "e4ae6b93fd4f3051",
    "0aeec2a0d95c55d0",
    "6db6ca64564daeaa",
    "1855175365104f8c",
    "60d26adde74f5898",
    "cdc02d5e724fda90",
]

# --- stability ------------------------------------------------------------------------------


@pytest.mark.parametrize("remove", [False, True])
def test_one_key_more_or_less_moves_only_boundaries_nearby(remove: bool) -> None:
    target = 64
    splitter, keys = ContentSplitter(target), random_keys()[:20_000]
    before = keys[splitter.ends(keys, 0, True) - 1]
    rng = np.random.default_rng(11)
    unmoved, reaches = 0, []
    for place in rng.integers(1, len(keys), 300).tolist():
        middle = keys[place - 1] + (keys[place] - keys[place - 1]) // np.uint64(2)
        changed = np.delete(keys, place) if remove else np.insert(keys, place, middle)
        after = changed[splitter.ends(changed, 0, True) - 1]
        moved = np.searchsorted(keys, np.setxor1d(before, after)) - place
        unmoved += len(moved) == 0
        assert all(moved >= 0), "a boundary before the change moved"
        reaches.append(int(moved.max(initial=0)))
    assert unmoved > 0.8 * len(reaches)
    assert np.mean(reaches) < target
    assert max(reaches) < 10 * target


# --- capacity -------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [2, 3, 4, 7, 64])
def test_capacity_cuts_into_even_chunks(target: int) -> None:
    for count in range(1, 12 * target):
        found = sizes(CapacitySplitter(target), np.arange(count, dtype=np.uint64))
        assert found.sum() == count
        assert found.max() <= target + target // 2
        assert found.max() - found.min() <= 1
        assert count <= target or found.min() >= target // 2


def test_capacity_leaves_a_small_chunk_open() -> None:
    splitter = CapacitySplitter(64)
    few = np.arange(15, dtype=np.uint64)
    assert splitter.ends(few, 0, False).tolist() == []
    assert splitter.ends(few, 0, True).tolist() == [15]
    assert splitter.ends(np.arange(16, dtype=np.uint64), 0, False).tolist() == [16]
