"""Golden values: a change of format is a failing test, never a surprise.

The addresses are those of `arrays.CASES`, and `format_reference` computes them a second way.
"""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.chunks import format_reference
from tests.unit.chunks.arrays import CASES, address_of

from livingdb.chunks.address import digest
from livingdb.chunks.chunk import NODE, encode_chunk, encode_record
from livingdb.chunks.types import describe
from livingdb.trees.builder import build
from livingdb.trees.keys import KeyCodec, hash_keys
from livingdb.trees.shape import Shape
from livingdb.trees.splitter import ContentSplitter, _thresholds

ADDRESSES = {
    "boolean": "05af1f745d5090c0da1bc19d4f2b04a93a4ca6340732ff4af38f37fbdf774d48",
    "int8": "a61a449ef5a10d3d713fe4dde32e04670a3de1e6d8df53760e7031aef2181ca4",
    "int16": "e24097b959469fdb0f6c4715616a563064d295070ee5746c9d63f7c85490fbac",
    "int32": "ca9e5f1aed6c087f8256d5189bcfacf466b2b9f0ae778ae9d3a2e584f86ea37c",
    "int64": "195ccc2db4987d22f2fa7f60cf8487ff68d5a3d8fc03d25daea7743089581e70",
    "int64 ascending": "5566d2176556eeea1036d4804049c861d4facbcec3cf436c40b35a41df6e38df",
    "float32": "e40fbc0c779376c77a318caf5d7a0821844b9d5970452025916c11b9e5b55653",
    "float64": "04647fef75adff61e22e44e79d83e0d8492a6e0d62e643201966a6d0ccc6fad4",
    "float64 of decimals": "6235bbec0c3dfa08e80e5a638192bd9a91ee871e278996975a93fe30b04c7d4e",
    "decimal": "5ef5515fd3492dde74fc8b54a192f6ffb0c182186f1570ce445f5f670ebc4de8",
    "decimal of 38 digits": "be4fe39e7f39a6b079b6be0e53df2d7e9a791df6a8d5b7cea42b99082329e558",
    "decimal of scale 38": "6a7c7219c7b654647edde8b320a8b7116004421c2f7fe5c34032482353110fef",
    "date": "f81573ca51acc54a623bacd269f32654c639aa0dd787118d99af1127058b9aba",
    "timestamp": "4ae04d717f7a5794d06ba31498d121cae43454f1080d13375a5de272b8324f05",
    "timestamp UTC": "4a14c6f7e0d006e9a55c1901be7e7efc2e7857b09866a451515c841e7cf459e9",
    "timestamp Berlin": "4a14c6f7e0d006e9a55c1901be7e7efc2e7857b09866a451515c841e7cf459e9",
    "string": "c2ecb5e59481b915422615dcd5e5be569cf505bbd2ed8da9829f512dc75c8ac8",
    "string of few values": "421b964bd53b745bd5d0ed1d18da6f0e1878f51972b32e2b4e0eeded1bf2a9ea",
    "string with a prefix": "6c1954db9eb71ade59e5c1ee3e7efc234ffc0e220b4f1ef5001969b4023db5e8",
    "binary": "a36a4a4fec69963445708caa17bad89dd1b85267b0ca762e2ff571be5481536b",
    "fixed binary": "47c60a91b5fc04da6dd766be9332ce8b3fcffdf0589d2db085d8292be7bffdcf",
    "fixed binary of 16": "48783c8e69cc545c0b8e3f21ebd1823a0c21b201cd801f67da0d5b832f8b20d0",
    "list of int32": "8c551e5bc0409c4ad729607513888ce35743978ac8c2a99552906c42a9f65bdf",
    "list of string": "ccaf0a53ff96c7cc0a8b11ca3e9fb87b2905cff481dc08e672f30f4eb389d8f1",
    "list of boolean": "ba74d55218ae6262cae374c9707cfa14e6924d30b72beb78e352d32d1a121d5e",
    "list of list": "b61519bd952270f2d67e60fa80c6f2bd5f8f6570d6576024a1a6ac0449ece3a0",
    "list of struct": "58b30c82643b2a7a2d80b820162c91c33819599c30eebfb9ba58a6fad9e743b0",
    "list of map": "ccb5e6b9e35f705e441bd0161b8ab70900974a88f47de5a2bc2bf14ae1017448",
    "struct": "d86734e16c08365ffe540cb7c6f71a80b123ef1779e67e10f82f177e5c6645b1",
    "struct of two": "d50396bb0b83dfaeba8b5509ec2c22802d86c6c3971245d21dc31185b3655ac3",
    "map of int64": "8fcdc8dd738a34b93a635ce99c396ece6766146a603205091cdbd5186c70b34f",
    "map by float": "7b53599e65cafe7e310b942dedc067b65fc7a5eb52559f6fde837da3cf086bce",
    "map by boolean of map": "ab66101f91e7959e1fa1636fd46dd402dcc71c0ae89e97c5f3b588e72480a608",
    "map by decimal of struct": "19705a29742830acbf3299cbf7dcb24a09d7cc4821390f865a35a4a51c38d32e",
    "map by date": "77a4c525992a858d1a666aa2a941329d6c4815dd2e4f0e1673b79ee4c9507ee8",
    "map by timestamp": "f55f7a9d372c2f7a8eb0666ee37431631242e86f5fd05c18845fc0ca38ce26ef",
}

INNER = pa.struct([("a", pa.list_(pa.float32())), ("b", pa.map_(pa.string(), pa.date32()))])
DESCRIPTORS = [
    (pa.bool_(), "01"),
    (pa.int8(), "02"),
    (pa.int16(), "03"),
    (pa.int32(), "04"),
    (pa.int64(), "05"),
    (pa.float32(), "06"),
    (pa.float64(), "07"),
    (pa.decimal128(5, 2), "080502"),
    (pa.decimal128(38, 0), "082600"),
    (pa.date32(), "09"),
    (pa.timestamp("us"), "0a"),
    (pa.timestamp("us", "UTC"), "0b"),
    (pa.timestamp("us", "Asia/Tokyo"), "0b"),
    (pa.string(), "0c"),
    (pa.binary(), "0d"),
    (pa.binary(32), "112000"),
    (pa.list_(pa.int32()), "0e04"),
    (pa.list_(pa.list_(pa.decimal128(9, 2))), "0e0e080902"),
    (pa.struct([("x", pa.int64()), ("y", pa.bool_())]), "0f02000501"),
    (INNER, "0f02000e06100c09"),
    (pa.map_(pa.int16(), INNER), "10030f02000e06100c09"),
]

KEYS: list[tuple[list[pa.DataType], tuple[Any, ...], str, int, int]] = [
    ([pa.int64()], (-1,), "7fffffffffffffff", 0xD7EA0228AFA64A5D, 0xB18E03C8F8F7D2B0),
    (
        [pa.int32(), pa.bool_()], (7, True),
        "0000008000000701", 0x81083905D1912A89, 0x4D46D588AA6FED31,
    ),
    ([pa.float64()], (-1.5,), "4007ffffffffffff", 0xD893B5E38C38401C, 0x2C5846889A7BD7A7),
    (
        [pa.float32(), pa.int16()], (math.nan, -2),
        "0000ffc000007ffe", 0x7911DDEDB0043A3D, 0xF5D2B3C1A1AED157,
    ),
    (
        [pa.string()], ("zero\0byte",),
        "7a65726f00ff62797465", 0xFA2473F802A38FC3, 0x8EB61942EA69DAD9,
    ),
    (
        [pa.string(), pa.int64()], ("a", 256),
        "61000080000000000001", 0x27D0C6EA11A7FA5F, 0x8ED3921F976AEDB0,
    ),
    ([pa.binary()], (b"",), "", 0x6DB6CA64564DAEAA, 0x5CC60547776902BA),
    (
        [pa.date32(), pa.timestamp("us")], (date(2024, 2, 29), 0),
        "80004d4680", 0xFFF367E497B23A29, 0x26537F66775BD630,
    ),
    (
        [pa.decimal128(10, 2)], (Decimal("-1.25"),),
        "7fffffffffffffffffffffffffffff83", 0xAF31C5F3845A2385, 0x86BA6691408A0B43,
    ),
    (
        [pa.int64(), pa.int64()], (1, 2),
        "80000000000000018000000000000002", 0xABCEFC889C2FE31C, 0xC41BBDB25F9060EB,
    ),
]  # fmt: skip


def test_every_array_has_a_golden_address() -> None:
    assert ADDRESSES.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_addresses(name: str) -> None:
    array = CASES[name]
    assert address_of(array).hex() == ADDRESSES[name]
    assert format_reference.address([(array.to_pylist(), array.type)]).hex() == ADDRESSES[name]


def test_addresses_of_chunks() -> None:
    columns = [
        CASES["int64 ascending"],
        pa.array([f"customer-{number * number % 997}" for number in range(300)]),
    ]
    assert {
        "leaf": encode_chunk(columns).address.hex(),
        "node": encode_chunk(columns, kind=NODE, level=2).address.hex(),
        "no columns": encode_chunk([]).address.hex(),
        "record": encode_record(b'{"kind":"snapshot"}').address.hex(),
        "empty record": encode_record(b"").address.hex(),
    } == {
        "leaf": "370e5ffd05e7ef0e9ff461e306af79b7150b01a16caf610b709f204bfdf1bd79",
        "node": "8253345f62690f0b90a1313fe227a0962b0be0cf3040384075ef4410e8e625d2",
        "no columns": "7003308bc76a39e16227d484e7d97e64f988797680f1b4f090ca48d61a63ddc4",
        "record": "88608f71069399b88400065f09b6a6a15770213bda4e015312ce5a0368dd2274",
        "empty record": "70f67027453930d5373e21c23df7a579ad4dc518e36a4b5bcd5580aaca3a0aef",
    }


@pytest.mark.parametrize(("data_type", "expected"), DESCRIPTORS, ids=str)
def test_descriptors(data_type: pa.DataType, expected: str) -> None:
    assert describe(data_type).hex() == expected
    assert format_reference.descriptor(data_type).hex() == expected


@pytest.mark.parametrize(("types", "values", "encoded", "leaf_hash", "node_hash"), KEYS)
def test_keys(
    types: list[pa.DataType],
    values: tuple[Any, ...],
    encoded: str,
    leaf_hash: int,
    node_hash: int,
) -> None:
    codec = KeyCodec(types)
    keys = codec.encode(codec.arrays([values]))
    assert codec.to_binary(keys)[0].as_py().hex() == encoded
    assert [int(hash_keys(keys, salt)[0]) for salt in (0, 1)] == [leaf_hash, node_hash]
    key = int(encoded, 16) if codec.packed else bytes.fromhex(encoded)
    assert format_reference.hash_key(key, 0) == leaf_hash
    assert format_reference.hash_key(key, 1) == node_hash


def test_thresholds() -> None:
    digests = [
        digest(_thresholds(target, least).astype("<u4").tobytes()).hex()
        for target, least in ((4096, 1), (256, 2))
    ]
    assert digests == [
        "1ef48183d8c0caef9b2fdcc19c52f8c74d8862afeea41675dd73c0d0dca0990f",
        "c7f596d4dfc13158a6dfd7e0a464629883aaa1cc1d70221ecd99ee05958ea569",
    ]


def test_where_chunks_end() -> None:
    keys = np.arange(40_000, dtype=np.uint64) * np.uint64(16) ^ np.uint64(1 << 63)
    splitter = ContentSplitter()
    assert splitter.ends(keys, 0, final=True).tolist() == [
        5138, 8384, 11672, 16563, 21594, 25318, 30295, 35571, 38782, 40000,
    ]  # fmt: skip
    assert splitter.ends(keys[:3_000], 1, final=True).tolist() == [
        271, 516, 807, 1095, 1345, 1731, 1927, 2184, 2463, 2658, 2910, 3000,
    ]  # fmt: skip


def test_the_root_of_a_tree() -> None:
    shape = Shape(("id", "name", "amount"), (pa.int64(), pa.string(), pa.float64()), 1)
    rows = 20_000
    columns = [
        pa.array(np.arange(rows) * 16),
        pa.array([f"customer-{number * number % 9973}" for number in range(rows)]),
        pa.array(np.arange(rows) % 1000 / 4),
    ]
    root = build(shape, [columns], lambda chunk: None)
    assert root.hex() == "16d0daf9fdb3c73ffe3688bffc008cc8d39090ed1ce2fbbcaeb0d605694c799f"
