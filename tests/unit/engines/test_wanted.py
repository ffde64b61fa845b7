"""Ranges as text."""

from __future__ import annotations

import pyarrow as pa

from livingdb.engines.range_text import wanted_as_text, wanted_of_text
from livingdb.engines.value_ranges import Range, compared, either


def test_ranges_survive_the_way() -> None:
    points = either(compared(pa.string(), "=", text) or () for text in ("", "c\0", "Ærø"))
    wanted = {
        "": (Range(),),
        'city, `odd` "name"': points,
        "id": compared(pa.int64(), "<", 7) or (),
        "none": (),
        "open": (Range(b"\xff\x00"),),
    }
    assert wanted["id"]
    assert wanted_of_text(wanted_as_text(wanted)) == wanted
    assert wanted_of_text(wanted_as_text({})) == {}
