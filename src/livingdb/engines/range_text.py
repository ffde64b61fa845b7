"""Column ranges as JSON text, for the data source option that carries them to Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping

from livingdb.engines.value_ranges import Range, Ranges

__all__ = ["RANGES_OPTION", "ranges_from_text", "ranges_to_text"]

RANGES_OPTION = "_wanted"
"""The option by which the Spark engine hands ranges to LivingDB's data source."""


def ranges_to_text(wanted: Mapping[str, Ranges]) -> str:
    """JSON: for each column its ranges as low, high and point, bytes in hexadecimal digits."""
    shown = {
        name: [(item.low.hex(), _hex(item.high), _hex(item.point)) for item in ranges]
        for name, ranges in wanted.items()
    }
    return json.dumps(shown)


def ranges_from_text(text: str) -> dict[str, Ranges]:
    """The inverse of `ranges_to_text`."""
    return {
        name: tuple(
            Range(bytes.fromhex(low), _bytes(high), _bytes(point)) for low, high, point in items
        )
        for name, items in json.loads(text).items()
    }


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
