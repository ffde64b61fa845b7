"""Numbers about whole columns: distinct counts, quantiles, and how far distributions lie apart."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import InvalidData
from livingdb.tables.row_hash import encoded_rows

__all__ = [
    "deviation_of",
    "distinct_count",
    "kolmogorov_smirnov",
    "population_stability",
    "quantile_of",
]

Floats: TypeAlias = npt.NDArray[np.float64]

_LEAST_SHARE = 1e-4
"""What an empty bin counts as, so that it does not weigh infinitely."""
kinds = pa.types


def _is_ordered(data_type: pa.DataType) -> bool:
    """Whether values are numbers, or can be seen as such."""
    return bool(
        kinds.is_integer(data_type)
        or kinds.is_floating(data_type)
        or kinds.is_decimal(data_type)
        or kinds.is_temporal(data_type)
    )


def _numbers(values: pa.Array) -> Floats:
    """The values as numbers, without nulls and what is no number."""
    kind = values.type
    if not _is_ordered(kind):
        raise InvalidData(f"a column of {kind} has no order of numbers")
    if kinds.is_date32(kind):
        values = values.cast(pa.int32())
    elif kinds.is_temporal(kind):
        values = values.cast(pa.int64())
    found: Floats = values.drop_null().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found[~np.isnan(found)]


def distinct_count(values: pa.Array) -> int:
    """How many different values there are; null is none."""
    plain = values.drop_null()
    if kinds.is_nested(plain.type):
        plain = encoded_rows([plain])
    return int(pc.count_distinct(plain).as_py())


def deviation_of(values: pa.Array) -> float | None:
    """The standard deviation of all values, from the values themselves."""
    numbers = values.drop_null().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return float(np.std(numbers)) if len(numbers) else None


def quantile_of(values: pa.Array, share: float) -> float | None:
    """The value below which a share of the values lies, between two if need be."""
    found = _numbers(values)
    return float(np.quantile(found, share)) if len(found) else None


def kolmogorov_smirnov(old: pa.Array, new: pa.Array) -> float | None:
    """The most by which the shares of values up to any number differ."""
    one, other = np.sort(_numbers(old)), np.sort(_numbers(new))
    if not len(one) or not len(other):
        return None
    points = np.concatenate([one, other])
    below_one = np.searchsorted(one, points, side="right") / len(one)
    below_other = np.searchsorted(other, points, side="right") / len(other)
    return float(np.abs(below_one - below_other).max())


def population_stability(old: pa.Array, new: pa.Array, bins: int) -> float | None:
    """The sum over bins of how much their shares changed, weighed by how many times."""
    if not len(old) or not len(new):
        return None
    if old.type == new.type and not _is_ordered(old.type):
        counts = _value_counts(old, new)
    else:
        one, other = _numbers(old), _numbers(new)
        counts = _bin_counts(one, other, bins)
        # What is no number is a bin of its own, as null is.
        counts.append((len(old) - len(one), len(new) - len(other)))
    pairs = np.array([pair for pair in counts if any(pair)], dtype=np.float64)
    shares = np.maximum(pairs / pairs.sum(axis=0), _LEAST_SHARE)
    was, now = shares[:, 0], shares[:, 1]
    return float(((now - was) * np.log(now / was)).sum())


def _bin_counts(old: Floats, new: Floats, bins: int) -> list[tuple[int, int]]:
    """How many there are in the bins that hold about as many of the old ones each."""
    if not len(old):
        return [(0, len(new))]
    edges = np.unique(np.quantile(old, np.linspace(0, 1, bins + 1)[1:-1]))
    was, now = (
        np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
        for values in (old, new)
    )
    return list(zip(was.tolist(), now.tolist(), strict=True))


def _value_counts(old: pa.Array, new: pa.Array) -> list[tuple[int, int]]:
    both = pa.concat_arrays([old, new])
    if kinds.is_nested(both.type):
        both = encoded_rows([both])
    coded = both.dictionary_encode(null_encoding="encode")
    codes, count = coded.indices.to_numpy(), len(coded.dictionary)
    was = np.bincount(codes[: len(old)], minlength=count)
    now = np.bincount(codes[len(old) :], minlength=count)
    return list(zip(was.tolist(), now.tolist(), strict=True))
