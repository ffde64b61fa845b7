"""The laws of trees, each over at least a thousand random examples.

canonical   the same rows give the same root, whatever the edits that led to them
diff        apply(a, diff(a, b)) = b, in order, and nothing for equal trees
merge       the model's merge from either side; conflicts are exactly the model's
scan        what a sorted dict gives: ranges, columns, overlays, zone filters, parts
changes     merged changes do what one after the other do
key order   encoded keys compare as Spark compares the values
capacity    every law but the canonical one, with node sizes in bounds
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.property.trees_model import (
    BERLIN,
    BINARY,
    BOOL,
    DATE,
    FEW,
    FLOAT32,
    FLOAT64,
    INSTANT,
    INT8,
    INT32,
    INT64,
    KEY_TYPES,
    LOCAL,
    STRING,
    WIDE,
    Lab,
    Operation,
    Operations,
    Rows,
    apply_deltas,
    cuts_of,
    deltas,
    labs,
    nodes_by_level,
    order,
    plain,
    plain_rows,
    rows_of,
)
from tests.property.trying import MANY, tries

from livingdb.chunks.address import Address
from livingdb.trees.delta import DELETE, PATCH, UPSERT, Delta, empty_delta, merge_deltas
from livingdb.trees.diff import DELETED, INSERTED, UPDATED, diff, to_delta
from livingdb.trees.edit import edit
from livingdb.trees.keys import KeyCodec, align, hash_keys, key_lengths, search
from livingdb.trees.merge import Conflicts, merge
from livingdb.trees.scan import Span, ZoneFilter, count_rows, split
from livingdb.trees.seek import contains, seek, seek_many
from livingdb.trees.splitter import CapacitySplitter
from livingdb.trees.zones import zone_value

_slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
law = settings(max_examples=MANY, deadline=None, suppress_health_check=_slow)
corner = settings(law, max_examples=max(tries(150), settings().max_examples))
"""For a part of a law that has its thousand elsewhere; the profile `thorough` tries harder."""


@pytest.fixture(autouse=True, scope="module")
def small_world() -> Iterator[None]:
    """Sizes at which the code changes its ways, cut down to those of the examples.

    Keys of 65 bytes are long, and three leaves or siblings are many.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("livingdb.trees.keys._PADDING_BYTES", 200)
        patch.setattr("livingdb.trees.builder._MANY_SIBLINGS", 3)
        patch.setattr("livingdb.trees.builder._GROUP_LEAVES", 3)
        patch.setattr("livingdb.trees.scan._GROUP_LEAVES", 3)
        yield


# --- canonical ------------------------------------------------------------------------------


def edits_and_rebuilds_agree(data: st.DataObject, lab: Lab, ops: Sequence[int]) -> None:
    """Edit a few times; each time the root must be that of the rebuilt tree."""
    rows = data.draw(rows_of(lab.world))
    root = lab.build(rows)
    for number in range(data.draw(st.integers(1, 2))):
        change = data.draw(deltas(lab.world, ops, edges=lab.leaf_edges(root)))
        rows = apply_deltas(rows, change)
        root = lab.edit(root, change, twin=bool(number % 2))
        assert root == lab.build(rows, twin=bool((number + 1) % 2))
    event(f"levels: {len(nodes_by_level(lab.reader, root))}")


ALL_OPS = (UPSERT, UPSERT, PATCH, DELETE, DELETE)


@law
@given(st.data(), labs(values=FEW))
def test_an_edited_tree_is_the_rebuilt_tree(data: st.DataObject, lab: Lab) -> None:
    edits_and_rebuilds_agree(data, lab, ALL_OPS)


@corner
@given(st.data(), labs(keys=[(INT64,), (STRING, INT8)], values=[(), (STRING,)]))
def test_deletes_down_to_nothing_are_canonical(data: st.DataObject, lab: Lab) -> None:
    edits_and_rebuilds_agree(data, lab, (DELETE, DELETE, DELETE, UPSERT))


@corner
@given(
    st.data(),
    labs(
        keys=[(STRING,), (BINARY,), (STRING, INT8), (INT32, INT32)],
        values=[(), (INT64, FLOAT64)],
        flavours=["giant", "nasty"],
        max_key_bytes=[1, 20, 70, 200, 700],
    ),
)
def test_long_keys_and_key_caps_are_canonical(data: st.DataObject, lab: Lab) -> None:
    edits_and_rebuilds_agree(data, lab, ALL_OPS)


@corner
@given(st.data(), labs(piece_bytes=[100, 300, 900]))
def test_leaves_in_pieces_are_canonical(data: st.DataObject, lab: Lab) -> None:
    edits_and_rebuilds_agree(data, lab, ALL_OPS)


@corner
@given(st.data(), labs())
def test_new_values_move_no_boundary(data: st.DataObject, lab: Lab) -> None:
    rows = data.draw(rows_of(lab.world))
    root = lab.build(rows)
    change = data.draw(deltas(lab.world, (UPSERT, PATCH)))
    change = {place: delta for place, delta in change.items() if place in rows}
    edited = lab.edit(root, change)
    assert edited == lab.build(apply_deltas(rows, change))
    assert lab.leaf_edges(edited) == lab.leaf_edges(root)


@corner
@given(st.data(), labs())
def test_batches_do_not_matter_to_the_root(data: st.DataObject, lab: Lab) -> None:
    rows = data.draw(rows_of(lab.world))
    cuts = data.draw(cuts_of(len(rows)))
    assert lab.build(rows, cuts, twin=True) == lab.build(rows)


@corner
@given(st.data(), labs(values=FEW))
def test_content_chunks_keep_to_their_caps(data: st.DataObject, lab: Lab) -> None:
    shape = lab.world.shape
    rows = data.draw(rows_of(lab.world))
    levels = nodes_by_level(lab.reader, lab.build(rows))
    for level, nodes in levels.items():
        sizes = [len(node) for node in nodes]
        assert max(sizes) <= 2 * shape.splitter.fanout  # type: ignore[attr-defined]
        assert all(size >= 2 for size in sizes[:-1])
        if level == max(levels):
            assert len(nodes) == 1
            assert sizes[0] >= 2
        if level == 1:
            leaves = [size for node in nodes for size in node.rows.tolist()]
            assert max(leaves) <= 2 * shape.splitter.target_rows  # type: ignore[attr-defined]
            assert min(leaves) >= 1


# --- diff -----------------------------------------------------------------------------------


def model_diff(lab: Lab, before: Rows, after: Rows) -> list[tuple[int, Any, Any]]:
    """Kind, row before and row after of each key that differs, in key order."""
    found = []
    for place in sorted(before.keys() | after.keys()):
        old = lab.world.row(place, before[place]) if place in before else None
        new = lab.world.row(place, after[place]) if place in after else None
        if old != new:
            kind = INSERTED if old is None else DELETED if new is None else UPDATED
            found.append((kind, old, new))
    return found


def check_diff(lab: Lab, before: Rows, after: Rows, old: Address, new: Address) -> None:
    """The diff is the model's, and applied to the one gives the rows of the other."""
    nothing = (None,) * len(lab.world.shape.types)
    found: list[tuple[int, Any, Any]] = []
    parts: list[Delta] = [empty_delta(lab.world.shape)]
    for batch in diff(lab.reader, old, new):
        before_rows, after_rows = plain_rows([batch.before]), plain_rows([batch.after])
        for kind, one, other in zip(batch.kinds.tolist(), before_rows, after_rows, strict=True):
            assert (one == nothing) == (kind == INSERTED)
            assert (other == nothing) == (kind == DELETED)
            found.append(
                (kind, None if kind == INSERTED else one, None if kind == DELETED else other)
            )
        parts.append(to_delta(lab.world.shape, batch))
    assert found == model_diff(lab, before, after)
    changed = edit(lab.reader, old, merge_deltas(parts), lab.sink)
    if isinstance(lab.world.shape.splitter, CapacitySplitter):
        assert lab.rows(changed) == lab.world.table(after)
    else:
        assert changed == new


@law
@given(st.data(), labs(values=FEW))
def test_a_diff_of_related_trees_turns_one_into_the_other(data: st.DataObject, lab: Lab) -> None:
    before = data.draw(rows_of(lab.world))
    root = lab.build(before)
    after = apply_deltas(before, data.draw(deltas(lab.world, edges=lab.leaf_edges(root))))
    check_diff(lab, before, after, root, lab.build(after))


@corner
@given(st.data(), labs())
def test_a_diff_of_unrelated_trees_turns_one_into_the_other(data: st.DataObject, lab: Lab) -> None:
    before, after = data.draw(rows_of(lab.world)), data.draw(rows_of(lab.world))
    check_diff(lab, before, after, lab.build(before), lab.build(after))


@corner
@given(st.data(), labs())
def test_equal_trees_differ_in_nothing_and_are_not_read(data: st.DataObject, lab: Lab) -> None:
    rows = data.draw(rows_of(lab.world))
    one, other = lab.build(rows), lab.build(rows, data.draw(cuts_of(len(rows))))
    lab.store.forget()
    assert list(diff(lab.fresh_reader(), one, other)) == []
    assert lab.store.gets == []


# --- merge ----------------------------------------------------------------------------------


def model_merge(lab: Lab, base: Rows, ours: Rows, theirs: Rows) -> tuple[Rows, set[int]]:
    """The merged rows where no conflict is, and the keys in conflict."""
    merged: Rows = {}
    conflicts: set[int] = set()

    def state(rows: Rows, place: int) -> Any:
        return lab.world.values(place, rows[place]) if place in rows else None

    for place in base.keys() | ours.keys() | theirs.keys():
        was, mine, yours = (state(rows, place) for rows in (base, ours, theirs))
        if was not in (mine, yours) and mine != yours:
            conflicts.add(place)
        chosen = ours if mine != was else theirs
        if place in chosen:
            merged[place] = chosen[place]
    return merged, conflicts


def places_in(lab: Lab, conflicts: Sequence[Conflicts]) -> list[int]:
    """The places of the keys in conflict, each checked against both sides' rows."""
    count = lab.world.shape.key_count
    found = []
    for batch in conflicts:
        sides = [plain_rows([side]) for side in (batch.base, batch.ours, batch.theirs)]
        for rows in zip(*sides, strict=True):
            key = next(row[:count] for row in rows if row[0] is not None)
            found.append(lab.world.places[key])
    return found


def check_conflicts(
    lab: Lab, conflicts: Sequence[Conflicts], base: Rows, ours: Rows, theirs: Rows
) -> None:
    """Every conflict shows the three rows as they are."""
    nothing = (None,) * len(lab.world.shape.types)
    at = iter(places_in(lab, conflicts))
    for batch in conflicts:
        sides = [plain_rows([side]) for side in (batch.base, batch.ours, batch.theirs)]
        deleted = zip(batch.ours_deleted.tolist(), batch.theirs_deleted.tolist(), strict=True)
        for shown, gone in zip(zip(*sides, strict=True), deleted, strict=True):
            place = next(at)
            for row, rows in zip(shown, (base, ours, theirs), strict=True):
                assert row == (lab.world.row(place, rows[place]) if place in rows else nothing)
            assert gone == (place not in ours, place not in theirs)


def check_merge(lab: Lab, base: Rows, root: Address, ours: Rows, theirs: Rows) -> None:
    """Merge both ways, with the base at the root; compare with the model."""
    a, b, c = root, lab.build(ours), lab.build(theirs)
    rows, conflicts = model_merge(lab, base, ours, theirs)
    forth = merge(lab.reader, a, b, c, lab.sink)
    back = merge(lab.reader, a, c, b, lab.sink)
    event("conflicts" if conflicts else "merged")
    if conflicts:
        assert forth.root is None
        assert back.root is None
        assert places_in(lab, forth.conflicts) == sorted(conflicts)
        assert places_in(lab, back.conflicts) == sorted(conflicts)
        check_conflicts(lab, forth.conflicts, base, ours, theirs)
        check_conflicts(lab, back.conflicts, base, theirs, ours)
        return
    assert forth.conflicts == back.conflicts == []
    assert forth.root is not None
    assert back.root is not None
    if isinstance(lab.world.shape.splitter, CapacitySplitter):
        assert lab.rows(forth.root) == lab.rows(back.root) == lab.world.table(rows)
    else:
        assert forth.root == back.root == lab.build(rows)
    twice = merge(lab.reader, a, forth.root, c, lab.sink)
    assert twice.root is not None
    if isinstance(lab.world.shape.splitter, CapacitySplitter):
        assert lab.rows(twice.root) == lab.world.table(rows)
    else:
        assert twice.root == forth.root


@law
@given(st.data(), labs(values=FEW))
def test_a_merge_is_the_models_merge_from_either_side(data: st.DataObject, lab: Lab) -> None:
    base = data.draw(rows_of(lab.world))
    root = lab.build(base)
    edges = lab.leaf_edges(root)
    ours = apply_deltas(base, data.draw(deltas(lab.world, most=2, edges=edges)))
    theirs = apply_deltas(base, data.draw(deltas(lab.world, most=2, edges=edges)))
    check_merge(lab, base, root, ours, theirs)


@corner
@given(st.data(), labs(values=FEW))
def test_sides_that_touch_different_keys_always_merge(data: st.DataObject, lab: Lab) -> None:
    """Each side changes keys of its own: stretches apart, or woven into each other."""
    base = data.draw(rows_of(lab.world))
    root = lab.build(base)
    edges = lab.leaf_edges(root)
    mine, yours = (data.draw(deltas(lab.world, edges=edges)) for _ in range(2))
    yours = {place: delta for place, delta in yours.items() if place not in mine}
    check_merge(lab, base, root, apply_deltas(base, mine), apply_deltas(base, yours))


@corner
@given(st.data(), labs(), st.sampled_from(["ours", "theirs", "neither", "some"]))
def test_a_resolver_settles_every_conflict(data: st.DataObject, lab: Lab, winner: str) -> None:
    base = data.draw(rows_of(lab.world))
    common = data.draw(deltas(lab.world, (UPSERT, DELETE), most=1))
    ours = apply_deltas(apply_deltas(base, common), data.draw(deltas(lab.world, most=2)))
    theirs = apply_deltas(base, data.draw(deltas(lab.world, most=2)))
    rows, conflicts = model_merge(lab, base, ours, theirs)
    asked: list[int] = []

    def answer(place: int) -> Operation | None:
        if winner == "ours":
            return None
        if winner == "theirs" and place in theirs:
            return UPSERT, theirs[place]
        return DELETE, (None,) * lab.world.width

    def resolve(batch: Conflicts) -> Delta | None:
        places = places_in(lab, [batch])
        asked.extend(places)
        if winner == "some" and places[0] % 2:
            return None
        found = {place: answer(place) for place in places}
        return lab.world.changes({p: delta for p, delta in found.items() if delta is not None})

    a, b, c = (lab.build(side) for side in (base, ours, theirs))
    merged = merge(lab.reader, a, b, c, lab.sink, resolve)
    assert asked == sorted(conflicts)
    if merged.conflicts:
        assert winner == "some"
        assert merged.root is None
        assert set(places_in(lab, merged.conflicts)) <= conflicts
        return
    for place in conflicts:
        settled = answer(place)
        if settled is not None:
            rows = apply_deltas(rows, {place: settled})
    assert merged.root == lab.build(rows)


# --- scan -----------------------------------------------------------------------------------


@st.composite
def spans(draw: st.DrawFn, lab: Lab) -> tuple[Span, range]:
    """A range of keys, and the places in it; bounds may be no row's key, or the wrong way round."""
    count = len(lab.world.keys)
    lower = draw(st.none() | st.integers(0, count - 1))
    upper = draw(st.none() | st.integers(0, count - 1))
    lower_open, upper_open = draw(st.booleans()), draw(st.booleans())
    start = 0 if lower is None else lower + lower_open
    stop = count if upper is None else upper + (not upper_open)
    span = Span(
        None if lower is None else lab.world.key(lower),
        None if upper is None else lab.world.key(upper),
        lower_open,
        upper_open,
    )
    return span, range(start, max(start, stop))


@st.composite
def column_choices(draw: st.DrawFn, lab: Lab) -> list[int] | None:
    """Some columns, in any order, or all."""
    count = len(lab.world.shape.types)
    every = st.permutations(range(count)).flatmap(
        lambda found: st.integers(1, count).map(lambda most: found[:most])
    )
    return draw(st.none() | every)


def project(rows: Sequence[tuple[Any, ...]], positions: Sequence[int] | None) -> list[Any]:
    """Some columns of plain rows."""
    return [row if positions is None else tuple(row[p] for p in positions) for row in rows]


@corner
@given(st.data(), labs())
def test_a_scan_gives_the_range_and_columns_asked_for(data: st.DataObject, lab: Lab) -> None:
    rows = data.draw(rows_of(lab.world))
    span, places = data.draw(spans(lab))
    positions = data.draw(column_choices(lab))
    expected = lab.world.table({p: v for p, v in rows.items() if p in places})
    found = lab.rows(lab.build(rows), positions=positions, span=span, keep=data.draw(st.booleans()))
    assert found == project(expected, positions)


@law
@given(st.data(), labs())
def test_a_scan_sees_changes_as_made(data: st.DataObject, lab: Lab) -> None:
    rows = data.draw(rows_of(lab.world))
    change = data.draw(deltas(lab.world))
    span, places = data.draw(spans(lab))
    positions = data.draw(column_choices(lab))
    made = apply_deltas(rows, change)
    expected = lab.world.table({p: v for p, v in made.items() if p in places})
    over = lab.world.changes(change, twin=True)
    found = lab.rows(lab.build(rows), positions=positions, span=span, changes=over)
    assert found == project(expected, positions)


@st.composite
def zone_filters(draw: st.DrawFn, lab: Lab) -> tuple[ZoneFilter, Any, Any]:
    """A filter on any column with the values of its bounds."""
    shape, count = lab.world.shape, lab.world.shape.key_count
    position = draw(st.integers(0, len(shape.types) - 1))
    data_type = shape.types[position]
    if position < count:
        values = [key[position] for key in lab.world.keys]
    else:
        values = [v for v in lab.world.tables[position - count] if v is not None]
    if pa.types.is_nested(data_type):
        return ZoneFilter(position), None, None
    bounds = st.none() | st.sampled_from(values)
    least, greatest = draw(bounds), draw(bounds)
    found = ZoneFilter(position, zone_value(least, data_type), zone_value(greatest, data_type))
    return found, least, greatest


def matches(value: Any, least: Any, greatest: Any) -> bool:
    """Whether a value lies between the bounds."""
    if value is None:
        return False
    place = order(math.nan if value == "NaN" else value)
    return (least is None or order(least) <= place) and (
        greatest is None or place <= order(greatest)
    )


@corner
@given(st.data(), labs())
def test_zone_filters_lose_no_row_that_matches(data: st.DataObject, lab: Lab) -> None:
    rows = data.draw(rows_of(lab.world))
    change = data.draw(st.just({}) | deltas(lab.world, most=1))
    chosen = data.draw(st.lists(zone_filters(lab), min_size=1, max_size=2))
    filters = [zone_filter for zone_filter, _, _ in chosen]
    every = lab.world.table(apply_deltas(rows, change))
    wanted = [
        row
        for row in every
        if all(
            pa.types.is_nested(lab.world.shape.types[f.position])
            or matches(row[f.position], least, greatest)
            for f, least, greatest in chosen
        )
    ]
    over = lab.world.changes(change) if change else None
    found = lab.rows(lab.build(rows), filters=filters, changes=over)
    assert [row for row in found if row in wanted] == wanted
    assert [row for row in every if row in found] == found


@corner
@given(st.data(), labs(), st.integers(1, 9))
def test_parts_are_disjoint_ordered_complete_and_even(
    data: st.DataObject, lab: Lab, parts: int
) -> None:
    rows = data.draw(rows_of(lab.world))
    root = lab.build(rows)
    sizes, found = [], []
    for span in split(lab.reader, root, parts):
        part = lab.rows(root, span=span)
        sizes.append(len(part))
        found += part
    assert found == lab.world.table(rows)
    assert len(sizes) <= parts
    levels = nodes_by_level(lab.reader, root)
    largest = max((int(node.rows.max()) for node in levels.get(1, [])), default=len(rows))
    even = len(rows) / parts
    assert max(sizes) <= even + 2 * largest
    if len(sizes) == parts:
        assert min(sizes) >= even - 2 * largest


@corner
@given(st.data(), labs())
def test_point_reads_find_what_is_there(data: st.DataObject, lab: Lab) -> None:
    rows = data.draw(rows_of(lab.world))
    root = lab.build(rows)
    every = range(len(lab.world.keys))
    places = sorted(data.draw(st.sets(st.sampled_from(every), max_size=12)))
    keys = lab.world.encoded(places)
    there = [place for place in places if place in rows]
    positions = data.draw(column_choices(lab))
    assert count_rows(lab.reader, root) == len(rows)
    assert contains(lab.reader, root, keys).tolist() == [place in rows for place in places]
    found, columns = seek_many(lab.reader, root, keys, positions)
    assert found.tolist() == [place in rows for place in places]
    expected = lab.world.table({place: rows[place] for place in there})
    assert plain_rows([columns]) == project(expected, positions)
    for place in places[:3]:
        hit = seek(lab.reader, root, lab.world.key(place))
        assert (hit is None) == (place not in rows)
        if hit is not None:
            leaf, row = hit
            shown = [[plain(c[row].as_py())] for c in leaf.columns()]
            assert tuple(value for (value,) in shown) == lab.world.row(place, rows[place])


# --- changes --------------------------------------------------------------------------------


@law
@given(st.data(), labs(), st.integers(1, 3))
def test_merged_changes_do_what_one_after_the_other_do(
    data: st.DataObject, lab: Lab, count: int
) -> None:
    rows = data.draw(rows_of(lab.world))
    parts = [data.draw(deltas(lab.world, (UPSERT, PATCH, PATCH, DELETE))) for _ in range(count)]
    merged = merge_deltas([lab.world.changes(part) for part in parts])
    made = rows
    for part in parts:
        made = apply_deltas(made, part)
    columns = lab.world.columns(rows)
    keys, after = merged.apply(lab.world.shape.keys(columns), columns)
    assert plain_rows([after]) == lab.world.table(made)
    assert keys.tolist() == lab.world.encoded(sorted(made)).tolist()
    assert merged.keys.tolist() == lab.world.encoded(sorted(set().union(*parts))).tolist()
    if data.draw(st.integers(0, 3)) == 0:
        assert lab.rows(lab.build(rows), changes=merged) == lab.world.table(made)


@corner
@given(st.data(), labs())
def test_slices_of_changes_are_the_changes_of_a_range(data: st.DataObject, lab: Lab) -> None:
    rows, change = data.draw(rows_of(lab.world)), data.draw(deltas(lab.world))
    changes = lab.world.changes(change)
    every = st.integers(0, len(lab.world.keys) - 1)
    lower, upper = data.draw(st.none() | every), data.draw(st.none() | every)
    places = sorted(
        p for p in change if (lower is None or p >= lower) and (upper is None or p < upper)
    )
    part = changes.between(
        None if lower is None else lab.world.key(lower),
        None if upper is None else lab.world.key(upper),
    )
    columns = lab.world.columns(rows)
    made = apply_deltas(rows, {place: change[place] for place in places})
    keys = lab.world.shape.keys(columns)
    assert len(part) == len(places)
    assert plain_rows([part.apply(keys, columns)[1]]) == lab.world.table(made)
    start = sorted(change).index(places[0]) if places else 0
    same = changes.slice(start, start + len(places))
    assert plain_rows([same.apply(keys, columns)[1]]) == lab.world.table(made)
    assert same.is_structural == any(change[place][0] != PATCH for place in places)
    for position in range(lab.world.width):
        carried = [change[place][1][position] is not None for place in places]
        assert same.carries(lab.world.shape.key_count + position).tolist() == carried


# --- key order ------------------------------------------------------------------------------

_MONEY = next(data_type for data_type in KEY_TYPES if pa.types.is_decimal(data_type))
_LETTERS = st.characters(codec="utf-8") | st.sampled_from("ab\0\x01")
_BYTES = st.sampled_from([b"", b"\0", b"\x01", b"\xff", b"a"])
_MOMENTS = st.datetimes(datetime(1600, 1, 1), datetime(2500, 1, 1))
_NUMBERS = {INT8: 8, INT32: 32, INT64: 64}


def key_values(data_type: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a key column, often near each other."""
    if data_type in _NUMBERS:
        bound = 1 << (_NUMBERS[data_type] - 1)
        return st.integers(-bound, bound - 1) | st.integers(-2, 2)
    if data_type == BOOL:
        return st.booleans()
    if data_type == STRING:
        return st.text(_LETTERS, max_size=6)
    if data_type == BINARY:
        return st.lists(_BYTES, max_size=4).map(b"".join) | st.binary(max_size=4)
    if data_type in (FLOAT32, FLOAT64):
        width = 32 if data_type == FLOAT32 else 64
        return st.floats(width=width) | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf])  # type: ignore[arg-type]
    if data_type == DATE:
        return st.dates(date(1600, 1, 1), date(2500, 1, 1))
    if data_type == LOCAL:
        return _MOMENTS
    if data_type in (INSTANT, BERLIN):
        return _MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))
    assert pa.types.is_decimal(data_type)
    bound = 10**data_type.precision - 1
    integers = st.integers(-bound, bound) | st.integers(-2, 2)
    return integers.map(lambda n: Decimal(n).scaleb(-data_type.scale, WIDE))


@st.composite
def keyed(draw: st.DrawFn) -> tuple[list[pa.DataType], list[tuple[Any, ...]]]:
    """Key types and some keys of them."""
    types = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=3))
    key = st.tuples(*(key_values(data_type) for data_type in types))
    return types, draw(st.lists(key, min_size=2, max_size=6))


def sign(one: Any, other: Any) -> int:
    """How two values compare."""
    return int(one > other) - int(one < other)


@law
@given(keyed())
def test_encoded_keys_compare_as_the_values_do(
    drawn: tuple[list[pa.DataType], list[tuple[Any, ...]]],
) -> None:
    types, keys = drawn
    codec = KeyCodec(types)
    encoded = codec.encode(codec.arrays(keys))
    raw = codec.to_binary(encoded).to_pylist()
    model = [tuple(order(value) for value in key) for key in keys]
    for i in range(len(keys)):
        assert codec.encode_one(keys[i]) == encoded[i]
        for j in range(i):
            expected = sign(model[i], model[j])
            assert sign(encoded[i], encoded[j]) == expected
            assert sign(raw[i], raw[j]) == expected
    assert codec.from_binary(codec.to_binary(encoded)).tolist() == encoded.tolist()
    ranks = sorted(range(len(keys)), key=lambda place: model[place])
    assert np.argsort(encoded, kind="stable").tolist() == ranks


@corner
@given(keyed(), st.integers(0, 3))
def test_representations_of_keys_agree(
    drawn: tuple[list[pa.DataType], list[tuple[Any, ...]]], salt: int
) -> None:
    types, keys = drawn
    types, keys = [*types, BINARY], [(*key, b"") for key in keys]
    codec = KeyCodec(types)
    keys = (keys * 5)[:10]
    short = codec.encode(codec.arrays(keys))
    mixed = codec.encode(codec.arrays([*keys, (*keys[0][:-1], b"\xff" * 900)]))
    assert short.dtype.kind == "S"
    assert mixed.dtype == object
    same = mixed[: len(keys)]
    assert same.tolist() == short.tolist()
    assert key_lengths(same).tolist() == key_lengths(short).tolist()
    assert hash_keys(same, salt).tolist() == hash_keys(short, salt).tolist()
    assert hash_keys(mixed, salt)[: len(keys)].tolist() == hash_keys(short, salt).tolist()
    one, other = align(short, mixed)
    assert (one == other[: len(keys)]).all()
    ranked = np.sort(short)
    assert search(ranked, mixed[: len(keys)]).tolist() == search(ranked, short).tolist()
    assert search(np.sort(mixed), short).tolist() == search(np.sort(mixed), same).tolist()
    assert codec.from_binary(codec.to_binary(mixed)).tolist() == mixed.tolist()
    wide = np.array(short, f"S{short.dtype.itemsize + 13}")
    assert hash_keys(wide, salt).tolist() == hash_keys(short, salt).tolist()
    assert mixed[len(keys)] > mixed[0]


# --- capacity -------------------------------------------------------------------------------


def check_capacity(lab: Lab, root: Address) -> None:
    """Every node is within its bounds; the last of its level may be smaller."""
    splitter = lab.world.shape.splitter
    assert isinstance(splitter, CapacitySplitter)
    for level, nodes in nodes_by_level(lab.reader, root).items():
        within(splitter.fanout, [len(node) for node in nodes])
        if level == 1:
            within(splitter.target_rows, [n for node in nodes for n in node.rows.tolist()])


def within(target: int, sizes: Sequence[int]) -> None:
    """Sizes of the nodes of one level, in order."""
    assert max(sizes) <= target + target // 2
    assert min(sizes[:-1], default=target) >= min(max(target // 4, 2), 3 * target // 4)
    assert sizes[-1] >= 1


@settings(law, max_examples=max(tries(600), corner.max_examples))
@given(st.data(), labs(capacity=True, values=FEW))
def test_capacity_trees_hold_what_was_put_in(data: st.DataObject, lab: Lab) -> None:
    rows: Rows = data.draw(rows_of(lab.world))
    root = lab.build(rows, data.draw(cuts_of(len(rows))))
    check_capacity(lab, root)
    for _ in range(data.draw(st.integers(1, 3))):
        change: Operations = data.draw(deltas(lab.world))
        rows = apply_deltas(rows, change)
        root = lab.edit(root, change)
        assert lab.rows(root) == lab.world.table(rows)
        check_capacity(lab, root)
    assert count_rows(lab.reader, root) == len(rows)


@corner
@given(st.data(), labs(capacity=True, values=FEW))
def test_capacity_trees_diff(data: st.DataObject, lab: Lab) -> None:
    before = data.draw(rows_of(lab.world))
    change = data.draw(deltas(lab.world))
    after = apply_deltas(before, change)
    old = lab.build(before)
    check_diff(lab, before, after, old, lab.edit(old, change))
    check_diff(lab, after, before, lab.build(after), old)


@corner
@given(st.data(), labs(capacity=True, values=FEW))
def test_capacity_trees_merge(data: st.DataObject, lab: Lab) -> None:
    base = data.draw(rows_of(lab.world))
    root = lab.build(base)
    edges = lab.leaf_edges(root)
    ours = apply_deltas(base, data.draw(deltas(lab.world, most=2, edges=edges)))
    theirs = apply_deltas(base, data.draw(deltas(lab.world, most=2, edges=edges)))
    check_merge(lab, base, root, ours, theirs)


@corner
@given(st.data(), labs(capacity=True))
def test_capacity_trees_scan(data: st.DataObject, lab: Lab) -> None:
    rows, change = data.draw(rows_of(lab.world)), data.draw(deltas(lab.world))
    root = lab.edit(lab.build(rows), change)
    rows = apply_deltas(rows, change)
    over = data.draw(deltas(lab.world))
    span, places = data.draw(spans(lab))
    expected = {p: v for p, v in apply_deltas(rows, over).items() if p in places}
    found = lab.rows(root, span=span, changes=lab.world.changes(over))
    assert found == lab.world.table(expected)
    every = sorted(rows)
    keys = lab.world.encoded(every)
    assert plain_rows([seek_many(lab.reader, root, keys)[1]]) == lab.world.table(rows)
    parts = [lab.rows(root, span=part) for part in split(lab.reader, root, 3)]
    assert [row for part in parts for row in part] == lab.world.table(rows)
