"""Arrays that Arrow's own casts get wrong (pyarrow 26).

A list view becomes a list whose offsets are cut short, on whatever level of nesting it is
met.  A map whose keys are a dictionary that holds a null ends the process.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["has_list_view", "has_null_map_key", "without_list_views"]


def has_null_map_key(array: pa.Array) -> bool:
    """Whether a dictionary of map keys, anywhere in the array, holds a null.

    No other map can: Arrow makes none.
    """
    data_type = array.type
    if pa.types.is_map(data_type):
        keys = array.keys
        if pa.types.is_dictionary(keys.type) and keys.dictionary.null_count:
            return True
        return has_null_map_key(array.items)
    if pa.types.is_struct(data_type):
        return any(has_null_map_key(child) for child in array.flatten())
    return pa.types.is_nested(data_type) and has_null_map_key(array.flatten())


def has_list_view(data_type: pa.DataType) -> bool:
    """Whether there is a list view anywhere in the type."""
    if _is_list_view(data_type):
        return True
    return any(has_list_view(data_type.field(place).type) for place in range(data_type.num_fields))


def _is_list_view(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(data_type) or pa.types.is_large_list_view(data_type))


def without_list_views(array: pa.Array) -> pa.Array:
    """The same values with lists for list views; `ArrowInvalid` if they are too many."""
    data_type = array.type
    if not has_list_view(data_type):
        return array
    nulls = array.is_null() if array.null_count else None
    if pa.types.is_struct(data_type):
        children = [without_list_views(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, data_type.names, mask=nulls)
    if pa.types.is_map(data_type):
        entries = array.cast(pa.list_(pa.struct([data_type.key_field, data_type.item_field])))
        keys, items = (without_list_views(child) for child in entries.flatten().flatten())
        offsets = pa.array(_offsets(entries), mask=_mask(nulls))
        return pa.MapArray.from_arrays(offsets, keys, items)
    values = without_list_views(array.flatten())
    return pa.ListArray.from_arrays(pa.array(_offsets(array)), values, mask=nulls)


def _offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowInvalid("the lists hold too many values")
    return offsets.astype(np.int32)


def _mask(nulls: pa.Array | None) -> npt.NDArray[np.bool_] | None:
    """Nulls as the offsets of a map have them: one more, which never is."""
    if nulls is None:
        return None
    return np.append(nulls.to_numpy(zero_copy_only=False), np.bool_(False))
