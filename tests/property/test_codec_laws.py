"""The laws of the codec: what goes in comes out, and an address is a function of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies
from tests.property.codec_model import arrays, chunk_types
from tests.property.trying import tries
from tests.unit.chunks import format_reference
from tests.unit.chunks.arrays import layouts, normal

from livingdb.chunks import encodings, text_encodings
from livingdb.chunks.body import decode_body, encode_body
from livingdb.chunks.canonical import digest_column, from_arrow, to_arrow
from livingdb.chunks.chunk import Chunk, encode_chunk
from livingdb.chunks.plain import decode_plain, encode_plain
from livingdb.chunks.types import describe, parse_descriptor
from livingdb.errors import LivingDBError

thorough = settings(max_examples=tries(1_000))


def values(array: pa.Array) -> list[Any]:
    return [normal(value, array.type) for value in array.to_pylist()]


@thorough
@given(arrays())
def test_what_goes_in_comes_out(array: pa.Array) -> None:
    stored = encode_chunk([array])
    back = Chunk(stored.address, memoryview(stored.data)).column(0, array.type)
    back.validate(full=True)
    assert back.type == array.type
    assert values(back) == values(array)
    assert encode_chunk([back]) == stored


@thorough
@given(arrays())
def test_an_address_is_a_function_of_values(array: pa.Array) -> None:
    address = encode_chunk([array]).address
    for name, other in layouts(array):
        assert encode_chunk([other]).address == address, name


@thorough
@given(arrays())
def test_an_address_is_what_the_format_says(array: pa.Array) -> None:
    columns = [(array.to_pylist(), array.type)]
    assert encode_chunk([array]).address == format_reference.address(columns)


@thorough
@given(arrays(), st.data())
def test_a_slice_is_like_its_own_rows(array: pa.Array, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(array)))
    length = data.draw(st.integers(0, len(array) - start))
    alone = pa.array(array.to_pylist()[start : start + length], array.type)
    assert encode_chunk([array.slice(start, length)]) == encode_chunk([alone])


@thorough
@given(arrays())
def test_bodies_hold_the_canonical_column(array: pa.Array) -> None:
    column = from_arrow(array)
    digest = digest_column(column)
    encoded = decode_body(memoryview(encode_body(column, array.type)), array.type, len(array))
    plain = decode_plain(memoryview(encode_plain(column)), array.type, len(array))
    assert digest_column(encoded) == digest_column(plain) == digest
    assert digest_column(from_arrow(to_arrow(plain, array.type))) == digest


@thorough
@given(chunk_types)
def test_descriptors_are_unambiguous(data_type: pa.DataType) -> None:
    descriptor = describe(data_type)
    assert describe(parse_descriptor(descriptor)) == descriptor
    stored = encode_chunk([pa.nulls(1, data_type), pa.nulls(1, pa.int8())])
    assert Chunk(stored.address, stored.data).descriptors == (descriptor, b"\2")


@thorough
@given(arrays(max_rows=6), st.binary(min_size=1, max_size=8), st.integers(0, 2**32))
def test_damage_is_found(array: pa.Array, noise: bytes, place: int) -> None:
    stored = encode_chunk([array])
    at = place % len(stored.data)
    data = stored.data[:at] + noise + stored.data[at + len(noise) :]
    try:
        back = Chunk(stored.address, data).column(0, array.type)
    except LivingDBError:
        return
    assert values(back) == values(array)


# --- light encodings ------------------------------------------------------------------------

EXTREME = st.sampled_from([-(2**63), 2**63 - 1, -(2**31), 2**31, -1, 0, 1, 255, 256])
INTEGERS = st.integers(-(2**63), 2**63 - 1) | EXTREME


@st.composite
def integer_arrays(draw: st.DrawFn) -> npt.NDArray[np.int64]:
    """Integers of any spread: all over the place, close together, or rising steadily."""
    rows = draw(st.integers(0, 200))
    noise = draw(numpy_strategies.arrays(np.int64, rows, elements=INTEGERS))
    shrunk = noise >> np.int64(draw(st.integers(0, 63)))
    step, start = draw(st.integers(-(2**40), 2**40)), draw(INTEGERS)
    return shrunk + np.int64(step) * np.arange(rows) + np.int64(start)


@thorough
@given(integer_arrays(), st.binary(max_size=4))
def test_integers(array: npt.NDArray[np.int64], rest: bytes) -> None:
    encoded = encodings.encode_integers(array)
    back, used = encodings.decode_integers(memoryview(encoded + rest), len(array))
    assert used == len(encoded)
    assert np.array_equal(back, array)
    assert len(encoded) <= 18 + 8 * len(array)


@thorough
@given(
    numpy_strategies.arrays(np.float64, st.integers(0, 100), elements=st.floats())
    | numpy_strategies.arrays(
        np.float64,
        st.integers(0, 100),
        elements=st.integers(-(2**54), 2**54).map(lambda n: n / 100),
    ),
    st.integers(0, 6),
    st.booleans(),
)
def test_floats(array: npt.NDArray[np.float64], digits: int, rounded: bool) -> None:
    if rounded:
        with np.errstate(all="ignore"):
            array = np.round(array, digits)
    array = from_arrow(pa.array(array)).data  # type: ignore[assignment]
    for width, part in ((8, array), (4, from_arrow(pa.array(array).cast(pa.float32())).data)):
        assert part is not None
        encoded = encodings.encode_floats(part)
        back, used = encodings.decode_floats(memoryview(encoded), len(part), width)
        assert used == len(encoded)
        assert back.tobytes() == part.tobytes()


@settings(max_examples=tries(200))
@given(
    st.lists(
        st.floats(allow_nan=True) | st.integers(-(2**54), 2**54).map(lambda n: n / 100),
        min_size=1,
        max_size=4,
    )
)
def test_few_floats_are_encoded_as_many_are(values: list[float]) -> None:
    array = np.array(values)
    with np.errstate(all="ignore"):
        exponent = encodings._decimal_exponent(array)
        expected = None
        if exponent is not None:
            scaled = np.rint(array * 10.0**exponent).astype(np.int64)
            expected = exponent, scaled.tolist()
    assert encodings._few_decimals(values) == expected


@thorough
@given(st.integers(0, 60).flatmap(lambda n: st.binary(min_size=16 * n, max_size=16 * n)))
def test_wide_values(data: bytes) -> None:
    array = np.frombuffer(data, np.uint8).reshape(-1, 16)
    for part in (array, np.where(np.arange(16) < 4, array, np.uint8(0))):
        encoded = encodings.encode_wide(part)
        back, used = encodings.decode_wide(memoryview(encoded), len(part), 16)
        assert used == len(encoded)
        assert np.array_equal(back, part)


@thorough
@given(
    st.lists(st.binary(max_size=10), min_size=1, max_size=12),
    st.binary(max_size=300),
    st.integers(1, 40),
    st.booleans(),
)
def test_text(words: list[bytes], prefix: bytes, times: int, numbered: bool) -> None:
    many = [prefix + word for word in words] * times
    if numbered:
        many = [word + b"%d" % place for place, word in enumerate(many)]
    column = from_arrow(pa.array(many, pa.binary()))
    assert column.offsets is not None
    assert column.data is not None
    form = text_encodings.study_text(column.offsets, column.data)
    if form is not None:
        assert (form.least, form.greatest) == (min(many), max(many))
    for used_form in (form, None):
        encoded = text_encodings.encode_text(column.offsets, column.data, used_form)
        offsets, data, used = text_encodings.decode_text(memoryview(encoded), len(many))
        assert used == len(encoded)
        assert np.array_equal(offsets, column.offsets)
        assert np.array_equal(data, column.data)
