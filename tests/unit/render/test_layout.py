"""Where things go: laws of columns, lanes and slots."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.render.pictures import item, large, small, start

from livingdb.render.arrange import Item, arrange_graph
from livingdb.render.geometry import Geometry, sync_tracks
from livingdb.render.layout import columns_of, lane_order, slots_of
from livingdb.render.picture import SnapshotGraph


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Item], int]:
    """Snapshots in the order of their numbers, on any lanes, after any earlier ones."""
    lanes = draw(st.integers(1, 6))
    items: list[Item] = []
    numbers = range(1, draw(st.integers(1, 25)) + 1)
    for number in numbers:
        earlier = st.integers(1, number - 1) if number > 1 else st.nothing()
        parents = draw(st.lists(earlier, max_size=2, unique=True)) if number > 1 else []
        sources = draw(st.lists(earlier, max_size=2, unique=True)) if number > 1 else []
        lane = draw(st.integers(0, lanes - 1))
        is_start = draw(st.booleans())
        kind = draw(st.sampled_from(["transaction", "merge", "schema_change", "propagate"]))
        if parents and is_start and not any(i.lane == lane for i in items):
            items.append(start(parents[0], lane))
        items.append(item(number, lane, parents, kind, sources=tuple(sources)))
    return items, lanes


def check_places(graph: SnapshotGraph) -> None:
    places = [(node.lane, node.column) for node in graph.nodes]
    assert len(places) == len(set(places))
    for link in graph.links:
        assert graph.nodes[link.source].column < graph.nodes[link.target].column
    columns = [node.column for node in graph.nodes]
    assert columns == sorted(columns)
    assert set(columns) == set(range(max(columns, default=-1) + 1))
    assert {node.lane for node in graph.nodes} == set(range(len(graph.lanes)))


@given(histories())
def test_no_two_are_in_one_place_and_what_came_before_is_to_the_left(
    history: tuple[list[Item], int],
) -> None:
    items, lanes = history
    names = [f"b{lane}" for lane in range(lanes)]
    check_places(arrange_graph("t", items, names, lanes, []))


@given(histories(), st.data())
def test_the_laws_hold_where_some_are_not_shown(
    history: tuple[list[Item], int], data: st.DataObject
) -> None:
    items, lanes = history
    kept = [i for i in items if data.draw(st.booleans())]
    names = [f"b{lane}" for lane in range(lanes)]
    graph = arrange_graph("t", kept, names, lanes, [])
    check_places(graph)
    shown = {i.row.sequence for i in kept if i.kind != "start"}
    for node, made in zip(graph.nodes, kept, strict=True):
        if not node.is_start:
            assert node.hidden == sum(parent not in shown for parent in made.row.parents) or any(
                other.kind == "start" and other.lane == made.lane for other in kept
            )


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)), max_size=30), st.integers(0, 2))
def test_those_alive_at_one_time_have_slots_of_their_own(
    given_spans: Sequence[tuple[int, int]], gap: int
) -> None:
    spans = {at: (first, first + length) for at, (first, length) in enumerate(given_spans)}
    slots = slots_of(spans, gap)
    assert set(slots) == set(spans)
    for one, (first, last) in spans.items():
        for other, (start_row, end) in spans.items():
            if one < other and first <= end + gap and start_row <= last + gap:
                assert slots[one] != slots[other]
    most = max((sum(f <= at <= e + gap for f, e in spans.values()) for at in range(40)), default=0)
    assert len(set(slots.values())) == most


@given(st.data(), st.integers(1, 20))
def test_every_lane_is_below_the_one_it_comes_from(data: st.DataObject, count: int) -> None:
    parents = [
        None if at == 0 else data.draw(st.none() | st.integers(0, at - 1)) for at in range(count)
    ]
    order = lane_order(parents, list(range(count)))
    assert sorted(order) == list(range(count))
    place = {lane: at for at, lane in enumerate(order)}
    for lane, parent in enumerate(parents):
        assert parent is None or place[parent] < place[lane]


def test_what_does_not_depend_on_each_other_shares_a_column() -> None:
    assert columns_of([0, 0, 1, 2, 1], [[], [0], [0], [], [2]]) == [0, 1, 1, 1, 2]


def test_five_thousand_snapshots() -> None:
    graph = large(5000, 50)
    assert len(graph) == 5000
    check_places(graph)


def test_syncs_of_one_source_share_a_track_and_others_do_not_overlap() -> None:
    graph = large(300, 12)
    assert len(graph.syncs) > 1
    assert set(sync_tracks(graph)) == {0}
    assert len(set(sync_tracks(small()))) == 2


def test_a_link_along_a_lane_is_straight_and_one_past_a_node_is_not() -> None:
    items = [item(1, 0), item(2, 0, [1]), item(3, 0, [1])]
    graph = arrange_graph("t", items, ["main"], 1, [])
    place = Geometry(graph)
    routes = {(k.source, k.target): place.route(k).path for k in graph.links}
    assert "C" not in routes[0, 1]
    assert "C" in routes[0, 2]
