"""Layouts: what can be set, what is refused, which trees come of it, and when tails fold."""

from __future__ import annotations

import json
from typing import Any

import pytest

import livingdb
from livingdb.errors import InvalidData
from livingdb.tables.layout import FOLD_FLOOR_ROWS, FOLD_SHARE, Layout
from livingdb.tables.schema import TableSchema
from livingdb.trees.splitter import CapacitySplitter, ContentSplitter

SCHEMA = TableSchema.of(
    {"city": "string", "id": "bigint", "amount": "double", "note": "string", "shop": "int"},
    ["shop", "id"],
)


def test_layout_is_a_public_name() -> None:
    assert livingdb.Layout is Layout


@pytest.mark.parametrize(
    "settings",
    [
        {"splitter": "size"},
        {"splitter": None},
        {"target_rows": 1},
        {"target_rows": 1_000_001},
        {"target_rows": 10.5},
        {"target_rows": "many"},
        {"fold": "sometimes"},
        {"fold": None},
        {"fold": True},
        {"fold": -0.1},
        {"fold": 1.5},
        {"fold": float("nan")},
        {"groups": "city"},
        {"groups": ["city", "amount"]},
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidData, match=next(iter(settings))):
        Layout(**settings)


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([["town"]], "'town'"),
        ([["id"]], "'id' is in the key"),
        ([["city"], ["city", "note"]], "'city' is in two groups"),
        ([["city", "city"]], "'city' is in two groups"),
    ],
)
def test_groups_that_do_not_fit_the_schema(groups: list[list[str]], says: str) -> None:
    with pytest.raises(InvalidData, match=says):
        Layout(groups=groups).grouping(SCHEMA)


@pytest.mark.parametrize(
    ("groups", "columns"),
    [
        (None, [["city", "amount", "note"]]),
        ([], [["city", "amount", "note"]]),
        ([["amount"]], [["amount"], ["city", "note"]]),
        ([["note", "city"], ["amount"]], [["city", "note"], ["amount"]]),
        ([["note"], ["city"]], [["note"], ["city"], ["amount"]]),
    ],
)
def test_columns_that_no_group_names_share_one_more(
    groups: list[list[str]] | None, columns: list[list[str]]
) -> None:
    grouping = Layout(groups=groups).grouping(SCHEMA)
    assert grouping.names == ("shop", "id", "city", "amount", "note")
    assert [[grouping.names[at] for at in group] for group in grouping.groups] == columns
    for shape, group in zip(grouping.shapes, columns, strict=True):
        assert shape.names == ("shop", "id", *group)
        assert shape.key_count == 2


def test_a_table_may_have_nothing_but_its_key() -> None:
    grouping = Layout().grouping(TableSchema.of({"id": "int"}, "id"))
    assert grouping.groups == ((),)
    assert grouping.row_shape.names == ("id",)


def test_splitters() -> None:
    assert Layout().grouping(SCHEMA).splitter == ContentSplitter(4096, 256)
    assert Layout("capacity", 100).grouping(SCHEMA).splitter == CapacitySplitter(100, 16)


def test_when_a_tail_is_folded() -> None:
    assert [Layout(fold="always").is_fold_due(rows, 10) for rows in (0, 1)] == [False, True]
    assert not Layout(fold="never").is_fold_due(10**9, 1)
    assert [Layout(fold=0.5).is_fold_due(rows, 100) for rows in (50, 51)] == [False, True]
    assert [Layout(fold=0).is_fold_due(rows, 100) for rows in (0, 1)] == [False, True]
    auto = Layout(fold="auto")
    assert not auto.is_fold_due(FOLD_FLOOR_ROWS, 0)
    assert auto.is_fold_due(FOLD_FLOOR_ROWS + 1, 0)
    share = int(FOLD_SHARE * 10**6)
    assert [auto.is_fold_due(rows, 10**6) for rows in (share, share + 1)] == [False, True]


@pytest.mark.parametrize(
    "layout",
    [
        Layout(),
        Layout("capacity", 16, [["city"], ["amount", "note"]], "never"),
        Layout(fold=0.25),
        Layout(fold=1),
        Layout(groups=[]),
    ],
)
def test_layouts_survive_json(layout: Layout) -> None:
    text = json.dumps(layout.to_json())
    assert Layout.from_json(json.loads(text)) == layout
    assert json.dumps(Layout.from_json(json.loads(text)).to_json()) == text
    assert hash(layout) == hash(Layout.from_json(json.loads(text)))


def test_equal_layouts_have_one_form() -> None:
    assert json.dumps(Layout(fold=1).to_json()) == json.dumps(Layout(fold=1.0).to_json())
    assert Layout(groups=[["a"]]) == Layout(groups=(("a",),))
