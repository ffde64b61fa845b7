"""Laws of the graph: diff and apply, merge, blame, history, compaction, rebased transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.graph_lab import BRANCHES, Lab, Step, laboratory, layouts, steps
from tests.property.graph_model import TABLES, Key, State, Write, read, writes
from tests.property.trying import tries

from livingdb import Layout, MergeConflict

NUMBERS = st.integers(0, 99)
few = settings(max_examples=tries(40))


def _pick(lab: Lab, number: int) -> str:
    known = list(lab.model.states)
    return known[-1 - number % len(known)]


def _ready(lab: Lab, history: Sequence[Step]) -> None:
    """The history, with every branch there at its end."""
    lab.run(history)
    for name in BRANCHES:
        if name not in lab.model.heads:
            lab.clone(name, lab.model.heads["main"])


# --- diff -----------------------------------------------------------------------------------


@few
@given(history=steps(), layout=layouts(), a=NUMBERS, b=NUMBERS)
def test_applying_a_difference_makes_the_other_side(
    history: list[Step], layout: Layout, a: int, b: int
) -> None:
    with laboratory(layout) as lab:
        lab.run(history)
        before, after = _pick(lab, a), _pick(lab, b)
        there = lab.db.at(before).clone("there")
        applied = lab.db.apply(lab.db.diff(before, after), there)
        assert lab.read(applied.id) == lab.model.states[after]
        assert lab.roots(applied.id) == lab.roots(after)
        lab.db.apply(lab.db.diff(after, before), "there")
        assert lab.read("there") == lab.model.states[before]


# --- merge ----------------------------------------------------------------------------------


def _prefer(base: Any, ours: Any, theirs: Any) -> Any:
    """A policy that does not care which side is which."""
    return max((ours, theirs), key=lambda value: (value is not None, value or 0))


SWAPPED: list[tuple[Any, Any]] = [
    ("ours", "theirs"),
    ("theirs", "ours"),
    (
        {"*": "ours", "items.amount": _prefer, "stock.count": _prefer},
        {"*": "theirs", "items.amount": _prefer, "stock.count": _prefer},
    ),
    ({"*": "theirs", "stock": "ours"}, {"*": "ours", "stock": "theirs"}),
]


@few
@given(
    history=steps(),
    layout=layouts(),
    policies=st.sampled_from(SWAPPED),
    granularity=st.sampled_from(("row", "cell")),
)
def test_a_merge_has_the_same_content_from_either_side(
    history: list[Step], layout: Layout, policies: tuple[Any, Any], granularity: str
) -> None:
    with laboratory(layout) as lab:
        _ready(lab, history)
        left, right = lab.db.at("main").clone("left"), lab.db.at("dev").clone("right")
        mine, yours = left.head, right.head
        how: dict[str, Any] = {"granularity": granularity, "fast_forward": False}
        one = lab.db.merge(yours, into=left, on_conflict=policies[0], **how)
        other = lab.db.merge(mine, into=right, on_conflict=policies[1], **how)
        assert lab.read(one.id) == lab.read(other.id)
        assert lab.roots(one.id) == lab.roots(other.id)
        assert lab.db.merge(yours, into=left, **how) == one
        assert lab.db.merge("left", into=right, **how).tables() == one.tables()
        assert lab.read("right") == lab.read(one.id)


@few
@given(history=steps(), granularity=st.sampled_from(("row", "cell")))
def test_both_sides_see_the_same_conflicts(history: list[Step], granularity: str) -> None:
    with laboratory() as lab:
        _ready(lab, history)
        here = lab.db.preview_merge("dev", into="main", granularity=granularity)
        there = lab.db.preview_merge("main", into="dev", granularity=granularity)
        assert _sides(here.conflicts, "_ours", "_theirs") == _sides(
            there.conflicts, "_theirs", "_ours"
        )


def _sides(conflicts: Mapping[str, Any], first: str, second: str) -> dict[str, Any]:
    return {
        name: sorted(
            (repr((row["_base"], row[first], row[second])) for row in table.to_pylist()),
        )
        for name, table in conflicts.items()
    }


@few
@given(history=steps(), layout=layouts(), symmetric=st.booleans())
def test_merging_twice_changes_nothing(
    history: list[Step], layout: Layout, symmetric: bool
) -> None:
    with laboratory(layout) as lab:
        _ready(lab, history)
        how: dict[str, Any] = {"on_conflict": "theirs", "symmetric": symmetric}
        made = lab.db.merge("dev", into="main", **how)
        known = len(lab.db.snapshots())
        assert lab.db.merge("dev", into="main", **how) == made
        assert lab.db.merge("dev", into="main", fast_forward=False) == made
        lab.db.merge("main", into="dev")
        assert lab.db.branch("dev").head == made
        assert len(lab.db.snapshots()) == known


# --- several common ancestors ---------------------------------------------------------------


def _compare_merges(lab: Lab, into: str, source: str, by_cell: bool) -> None:
    """All policies on a pair of snapshots, against the model."""
    granularity = "cell" if by_cell else "row"
    for policy in ("fail", "ours", "theirs"):
        target = lab.db.at(into).clone("target")
        expected = lab.model.merge(into, source, policy, by_cell)
        how: dict[str, Any] = {"on_conflict": policy, "granularity": granularity}
        if expected.is_clean:
            made = lab.db.merge(source, into=target, fast_forward=False, **how)
            assert lab.read(made.id) == expected.state
        else:
            with pytest.raises(MergeConflict) as caught:
                lab.db.merge(source, into=target, fast_forward=False, **how)
            keys = {
                name: {tuple(row[k] for k in TABLES[name].key) for row in table.to_pylist()}
                for name, table in caught.value.conflicts.items()
            }
            assert keys == {name: set(found) for name, found in expected.conflicts.items()}
        lab.db.drop_branch("target")


crossing = st.tuples(st.sampled_from(("ours", "theirs")), st.booleans())
two_sides = steps(merges=False, max_size=6, branches=("main", "dev"))


@settings(max_examples=tries(60))
@given(
    before=two_sides,
    crossings=st.tuples(crossing, crossing),
    after=two_sides,
    again=st.booleans(),
    by_cell=st.booleans(),
)
def test_merges_that_cross(
    before: list[Step],
    crossings: tuple[tuple[str, bool], tuple[str, bool]],
    after: list[Step],
    again: bool,
    by_cell: bool,
) -> None:
    """Both branches merge what the other one was: then there are two common ancestors."""
    with laboratory() as lab:
        _ready(lab, before)
        for _ in range(1 + again):
            main, dev = lab.model.heads["main"], lab.model.heads["dev"]
            lab.merge(dev, "main", *crossings[0])
            lab.merge(main, "dev", *crossings[1])
            lab.run(after)
        lab.check()
        _compare_merges(lab, lab.model.heads["main"], lab.model.heads["dev"], by_cell)


@settings(max_examples=tries(60))
@given(
    before=steps(max_size=8),
    each=st.tuples(*[st.lists(writes(), max_size=2)] * 3),
    crossings=st.lists(crossing, min_size=4, max_size=4),
    after=st.tuples(*[st.lists(writes(), max_size=2)] * 2),
    by_cell=st.booleans(),
)
def test_merges_with_three_common_ancestors(
    before: list[Step],
    each: tuple[list[Write], ...],
    crossings: list[tuple[str, bool]],
    after: tuple[list[Write], ...],
    by_cell: bool,
) -> None:
    with laboratory() as lab:
        _ready(lab, before)
        for name, calls in zip(BRANCHES, each, strict=True):
            lab.write(name, *calls)
        heads = [lab.model.heads[name] for name in BRANCHES]
        sides = (("left", heads), ("right", heads[::-1]))
        for number, (side, order) in enumerate(sides):
            lab.clone(side, order[0])
            for at, other in enumerate(order[1:]):
                lab.merge(other, side, *crossings[2 * number + at])
            lab.write(side, *after[number])
        lab.check()
        _compare_merges(lab, lab.model.heads["left"], lab.model.heads["right"], by_cell)


def _item(amount: int, label: str = "") -> Write:
    return Write("upsert", "items", ("amount", "label"), (((1,), (amount, label)),))


@pytest.mark.parametrize("by_cell", [False, True])
def test_a_row_in_conflict_between_the_ancestors_is_in_conflict_for_good(by_cell: bool) -> None:
    with laboratory() as lab:
        lab.write("main", _item(0))
        lab.clone("dev", lab.model.heads["main"])
        main, dev = lab.write("main", _item(1)), lab.write("dev", _item(2))
        lab.merge(dev, "main", "ours")
        lab.merge(main, "dev", "ours")
        ours, theirs = lab.model.heads["main"], lab.model.heads["dev"]
        assert lab.model.base(lab.model.ancestors(ours), lab.model.ancestors(theirs))[1] == {
            "items": {(1,)}
        }
        _compare_merges(lab, ours, theirs, by_cell)
        with pytest.raises(MergeConflict):
            lab.db.merge("dev", into="main", granularity="cell" if by_cell else "row")


def test_a_row_on_which_both_agree_is_in_no_conflict() -> None:
    with laboratory() as lab:
        lab.write("main", _item(0))
        lab.clone("dev", lab.model.heads["main"])
        main, dev = lab.write("main", _item(1)), lab.write("dev", _item(2))
        lab.merge(dev, "main", "ours")
        lab.merge(main, "dev", "theirs")
        _compare_merges(lab, lab.model.heads["main"], lab.model.heads["dev"], by_cell=False)
        lab.db.merge("dev", into="main")
        assert lab.db.branch("main").table("items").get(1)["amount"] == 1


# --- blame and history ----------------------------------------------------------------------


def _blamed(name: str, found: Any) -> dict[Any, str]:
    """Key (and column, if there is one) → snapshot."""
    names = [*TABLES[name].key, *(["column"] if "column" in found.column_names else [])]
    rows = found.to_pylist()
    seen = {tuple(row[n] for n in names): row["snapshot"] for row in rows}
    assert len(seen) == len(rows)
    return seen


@settings(max_examples=tries(60))
@given(history=steps(max_size=16), layout=layouts(), compact=st.booleans())
def test_blame_names_the_snapshot_that_gave_the_value(
    history: list[Step], layout: Layout, compact: bool
) -> None:
    with laboratory(layout) as lab:
        lab.run(history)
        if compact:
            lab.db.compact()
        for branch, head in lab.model.heads.items():
            for name, shape in TABLES.items():
                rows = lab.state(branch)[name]
                by_row = {key: lab.model.blame(head, name, key) for key in rows}
                assert _blamed(name, lab.db.blame(branch, name)) == by_row
                by_cell = {
                    (*key, column): lab.model.blame(head, name, key, at)
                    for key in rows
                    for at, column in enumerate(shape.columns)
                }
                assert _blamed(name, lab.db.blame(branch, name, columns=True)) == by_cell
                for key in shape.keys[:3]:
                    given = key if len(key) > 1 else key[0]
                    expected = {key: by_row[key]} if key in rows else {}
                    assert _blamed(name, lab.db.blame(branch, name, key=given)) == expected


def _events(name: str, found: Any) -> list[tuple[Key, str, str, Any]]:
    return [
        (
            tuple(row[k] for k in TABLES[name].key),
            row["snapshot"],
            row["_change_type"],
            None if row["_change_type"] == "delete" else next(iter(read(name, [row]).values())),
        )
        for row in found.to_pylist()
    ]


@few
@given(history=steps(merges=False, max_size=16), layout=layouts())
def test_history_is_every_change_of_a_row(history: list[Step], layout: Layout) -> None:
    """Without merges there is one line, and what happened on it is all there is."""
    with laboratory(layout) as lab:
        lab.run(history)
        for branch, head in lab.model.heads.items():
            for name, shape in TABLES.items():
                everything = _events(name, lab.db.history(branch, name))
                for key in shape.keys:
                    expected = [(key, *event) for event in lab.model.events(head, name, key)]
                    given = key if len(key) > 1 else key[0]
                    assert _events(name, lab.db.history(branch, name, given)) == expected
                    assert [event for event in everything if event[0] == key] == expected


@settings(max_examples=tries(60))
@given(history=steps(max_size=16), layout=layouts())
def test_replaying_history_gives_the_row(history: list[Step], layout: Layout) -> None:
    """With merges too: the newest entry is what the row is, and every entry did happen."""
    with laboratory(layout) as lab:
        lab.run(history)
        for branch, head in lab.model.heads.items():
            for name, shape in TABLES.items():
                for key in shape.keys:
                    given = key if len(key) > 1 else key[0]
                    events = _events(name, lab.db.history(branch, name, given))
                    replayed = events[0][3] if events else None
                    assert replayed == lab.model.row(head, name, key)
                    for _, snapshot, _, row in events:
                        assert snapshot in lab.model.ancestors(head)
                        assert row == lab.model.row(snapshot, name, key)
                    if replayed is not None:
                        blamed = lab.model.blame(head, name, key)
                        assert blamed in [snapshot for _, snapshot, _, _ in events]


# --- upkeep ---------------------------------------------------------------------------------


@few
@given(history=steps(max_size=16), layout=layouts(), folded=st.sets(NUMBERS, max_size=4))
def test_compaction_changes_no_version(
    history: list[Step], layout: Layout, folded: set[int]
) -> None:
    with laboratory(layout) as lab:
        lab.run(history)
        for number in folded:
            lab.roots(_pick(lab, number))
        before = {which: lab.roots(which) for which in list(lab.model.states)[::3]}
        lab.db.compact()
        lab.check()
        assert {which: lab.roots(which) for which in before} == before
        lab.db.compact()
        lab.check()
        report = lab.db.check()
        assert report.ok, str(report)


# --- transactions ---------------------------------------------------------------------------


def _disjoint(before: State, first: Write, second: Write) -> bool:
    return first.table != second.table or not first.keys & second.keys


@few
@given(
    history=steps(max_size=6),
    layout=layouts(),
    first=st.lists(writes(), min_size=1, max_size=2),
    second=st.lists(writes(), min_size=1, max_size=2),
    isolation=st.sampled_from(("snapshot", "serializable")),
)
def test_a_rebased_transaction_does_what_it_would_have_done_after(
    history: list[Step],
    layout: Layout,
    first: list[Write],
    second: list[Write],
    isolation: str,
) -> None:
    with laboratory(layout) as lab:
        lab.run(history)
        state = lab.state("main")
        first = [write.fitted(state, linked=False) for write in first[:1]]
        second = [
            write.fitted(state, linked=False)
            for write in second[:1]
            if all(_disjoint(state, write, other) for other in first)
        ]
        main, after = lab.db.branch("main"), lab.db.at("main").clone("after")
        with main.transaction(isolation=isolation) as late:
            for write in second:
                write.call(late)
            for write in first:
                write.call(main)
        for write in (*first, *second):
            write.call(after)
        assert lab.read("main") == lab.read("after")
        assert lab.roots("main") == lab.roots("after")
