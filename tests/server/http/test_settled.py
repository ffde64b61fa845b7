"""Conflicts settled row by row: rows that are named as was said, others by the rule."""

from __future__ import annotations

import pytest

from livingdb import InvalidData
from livingdb.server.http.settled import Resolution, SettledRow

OURS, THEIRS = {"id": 1, "net": 5}, {"id": 1, "net": 7}


def policy(rule: str, **key: object) -> object:
    settled = {"orders": [SettledRow(key=key, take="theirs")]}
    said = Resolution(on_conflict=rule, settled=settled).policies()
    assert said["*"] == rule
    return said["orders"](None, OURS, THEIRS)


def test_a_row_takes_what_was_said() -> None:
    assert policy("fail", id=1) == "theirs"


def test_other_rows_go_by_the_rule() -> None:
    assert policy("ours", id=2) == "ours"
    with pytest.raises(InvalidData, match="was not settled"):
        policy("fail", id=2)


def test_a_column_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidData, match="no column 'number'"):
        policy("ours", number=1)
