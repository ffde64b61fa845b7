"""Ranges as text."""

from __future__ import annotations

import pyarrow as pa

from livingdb.engines.range_text import ranges_from_text, ranges_to_text
from livingdb.engines.value_ranges import Range, comparison_ranges, union_ranges


def test_ranges_survive_the_way() -> None:
    points = union_ranges(
        comparison_ranges(pa.string(), "=", text) or () for text in ("", "c\0", "Ærø")
    )
    wanted = {
        "": (Range(),),
        'city, `odd` "name"': points,
        "id": comparison_ranges(pa.int64(), "<", 7) or (),
        "none": (),
        "open": (Range(b"\xff\x00"),),
    }
    assert wanted["id"]
    assert ranges_from_text(ranges_to_text(wanted)) == wanted
    assert ranges_from_text(ranges_to_text({})) == {}
