"""The picture of a database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.unit.render.shop import shop
from tests.unit.render.test_layout import check_places

import livingdb
from livingdb.errors import InvalidData, NotFound
from livingdb.render.page import page_data
from livingdb.render.picture import Link, Node, SnapshotGraph


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    with shop(tmp_path_factory.mktemp("shop") / "shop.ldb") as opened:
        yield opened


@pytest.fixture(scope="module")
def graph(db: livingdb.Database) -> SnapshotGraph:
    made: SnapshotGraph = db.graph()
    return made


def on(graph: SnapshotGraph, lane: str) -> list[Node]:
    place = next(at for at, known in enumerate(graph.lanes) if known.name == lane)
    return [node for node in graph.nodes if node.lane == place]


def into(graph: SnapshotGraph, node: Node) -> list[tuple[Node, Link]]:
    at = graph.nodes.index(node)
    return [(graph.nodes[link.source], link) for link in graph.links if link.target == at]


def test_every_branch_has_a_lane_and_stages_have_none(
    db: livingdb.Database, graph: SnapshotGraph
) -> None:
    check_places(graph)
    names = [lane.name for lane in graph.lanes if not lane.is_dropped]
    assert sorted(names) == [branch.name for branch in db.branches()]
    assert graph.lanes[0].name == "main"
    heads = {name for node in graph.nodes for name in node.heads}
    assert heads == set(names)


def test_a_snapshot_is_where_it_was_made(db: livingdb.Database, graph: SnapshotGraph) -> None:
    assert [n.message for n in on(graph, "dev") if not n.is_start] == ["fix city"]
    start = next(node for node in on(graph, "main_v1") if node.is_start)
    assert start.id == db.branch("main_v1").log()[1].id
    assert on(graph, "idle")[0].heads == ("idle",)
    assert db.branch("idle").head.id == on(graph, "idle")[0].id


def test_edges_are_of_the_kinds_that_made_them(graph: SnapshotGraph) -> None:
    merge = next(node for node in graph.nodes if node.kind == "merge")
    assert [link.kind for _, link in into(graph, merge)] == ["merge", "merge"]
    derived = on(graph, "totals")[0]
    [(source, link)] = into(graph, derived)
    assert (link.kind, link.is_source, source.id) == ("derive", True, merge.id)
    followed = on(graph, "totals")[1]
    assert {link.is_source for _, link in into(graph, followed)} == {True, False}
    masked = on(graph, "masked")[0]
    [(_, link)] = into(graph, masked)
    assert (link.kind, link.is_block) == ("derive", True)
    assert link.sync is not None
    assert graph.syncs[link.sync].direction == "forward"


def test_what_went_through_a_hidden_stage_comes_from_what_users_know(graph: SnapshotGraph) -> None:
    last = on(graph, "main")[-1]
    sources = [node for node, link in into(graph, last) if link.is_source]
    assert [graph.lanes[node.lane].name for node in sources] == ["main_v2"]


def test_syncs_join_lanes(graph: SnapshotGraph) -> None:
    found = {
        (graph.lanes[sync.sources[0]].name, sync.arrow, graph.lanes[sync.target].name)
        for sync in graph.syncs
    }
    assert found == {
        ("main", "→", "totals"),
        ("main", "→", "masked"),
        ("main_v1", "↔", "main_v2"),
        ("main_v2", "↔", "main"),
    }


def test_a_dropped_branch_keeps_a_lane_without_a_name(graph: SnapshotGraph) -> None:
    [lane] = [at for at, lane in enumerate(graph.lanes) if lane.is_dropped]
    assert [node.message for node in graph.nodes if node.lane == lane] == ["an attempt"]


def test_a_dropped_branch_that_was_merged_keeps_its_name(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint"}, key="id")
        dev = main.clone("dev")
        dev.insert("t", [{"id": 1}])
        main.insert("t", [{"id": 2}])
        db.merge("dev", into="main")
        db.drop_branch("dev")
        lanes = db.graph().lanes
        assert [(lane.name, lane.is_dropped) for lane in lanes] == [("main", False), ("dev", True)]


def test_a_reset_leaves_what_it_left_on_the_lane(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint"}, key="id")
        main.insert("t", [{"id": 1}], message="left")
        main.reset("main~1")
        main.insert("t", [{"id": 2}], message="instead")
        graph = db.graph()
        check_places(graph)
        assert len(graph.lanes) == 1
        assert [node.heads for node in graph.nodes][-2:] == [(), ("main",)]
        assert "instead" in graph.to_text(width=100)


def test_a_new_database(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb") as db:
        graph = db.graph()
        assert len(graph) == 1
        assert graph.syncs == ()
        for drawn in (graph.to_text(), graph.to_mermaid(), graph.to_svg(), graph.to_html()):
            assert "create the database" in drawn or "create the d" in drawn


def test_fifty_branches_of_any_name(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb", author='<"ada">') as db:
        main = db.branch("main")
        main.create_table("t <&> |", {"id": "bigint", "größe": "string"}, key="id")
        names = ["<b>&amp", "عربي", "日本語", "x" * 200, "end", "a|b#c{d}", *map(str, range(43))]
        for at, name in enumerate(names):
            main.clone(name).insert("t <&> |", [{"id": at, "größe": None}], message="</script>")
        graph = db.graph()
        check_places(graph)
        assert {lane.name for lane in graph.lanes} == {"main", *names}
        assert len(graph.to_text(width=80).splitlines()) > 100
        assert graph.to_mermaid().count("subgraph") == 50
        ElementTree.fromstring(graph.to_svg())
        assert graph.to_html().count("</script>") == 2


def test_a_branch_that_was_moved_forward_keeps_its_snapshots(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint"}, key="id")
        dev = main.clone("dev")
        dev.insert("t", [{"id": 1}])
        dev.insert("t", [{"id": 2}])
        db.merge("dev", into="main")
        assert [node.heads for node in on(db.graph(), "dev")] == [(), (), ("main", "dev")]
        db.drop_branch("dev")
        assert [lane.name for lane in db.graph().lanes] == ["main"]


def test_some_branches_only(db: livingdb.Database) -> None:
    graph = db.graph(branches=["main", db.branch("totals")])
    assert [lane.name for lane in graph.lanes] == ["main", "totals"]
    assert [sync.name for sync in graph.syncs] == ["main/totals"]
    assert [lane.name for lane in db.graph(branches="idle").lanes] == ["idle"]
    with pytest.raises(NotFound, match=r"mian.*main"):
        db.graph(branches=["mian"])


def test_the_newest_only(db: livingdb.Database, graph: SnapshotGraph) -> None:
    few = db.graph(limit=5)
    assert len(few) == 5
    newest = [node.id for node in graph.nodes if not node.is_start][-5:]
    assert [node.id for node in few.nodes if not node.is_start] == newest
    assert sum(node.hidden for node in few.nodes) > 0
    check_places(few)
    assert len(db.graph(limit=0)) == 0
    assert len(db.graph(limit=10_000)) == len(graph)
    with pytest.raises(InvalidData, match="limit"):
        db.graph(limit=-1)


def test_since_a_time(db: livingdb.Database, graph: SnapshotGraph) -> None:
    middle = graph.nodes[len(graph.nodes) // 2]
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=middle.time)
    later = db.graph(since=moment)
    assert {node.id for node in later.nodes if not node.is_start} == {
        node.id for node in graph.nodes if node.time >= middle.time and not node.is_start
    }
    assert len(db.graph(since=moment.isoformat())) == len(later)
    assert len(db.graph(since="2000-01-01")) == len(graph)


def test_the_page_knows_tables_diffs_and_sources(
    db: livingdb.Database, graph: SnapshotGraph
) -> None:
    details = page_data(graph)["details"]
    snapshots = [node for node in graph.nodes if not node.is_start]
    found = dict(zip((node.id for node in snapshots), details["snapshots"], strict=True))
    merge = next(node for node in snapshots if node.kind == "merge")
    assert found[merge.id]["diff"] == {"orders": [0, 1, 0]}
    assert found[merge.id]["edge"]["sources"] == {"dev": on(graph, "dev")[-1].id}
    attempt = next(node for node in snapshots if node.message == "an attempt")
    assert found[attempt.id]["diff"] == {"orders": [0, 0, 2]}
    for node in (merge, on(graph, "main")[-1], on(graph, "totals")[-1]):
        tables = _tables(found, node.id)
        snapshot = db.at(f"id:{node.id}")
        assert sorted(tables) == snapshot.tables() == graph.tables(node)
        for name, version in tables.items():
            definition, rows = details["versions"][version]
            columns = [column for column, _ in details["definitions"][definition]["columns"]]
            assert columns == snapshot.table(name).schema.names
            assert rows in (None, len(snapshot.table(name)))


def test_without_counting_the_page_has_what_commits_wrote_down(graph: SnapshotGraph) -> None:
    snapshots = page_data(graph, diffs=0)["details"]["snapshots"]
    assert not any("diff" in found for found in snapshots)
    assert {"orders": 1} in [found.get("changed") for found in snapshots]


def _tables(found: dict[str, dict[str, object]], identifier: str) -> dict[str, int]:
    """As the page does it: own changes over those of the first parent."""
    line = []
    while True:
        line.append(found[identifier])
        if "whole" in found[identifier]:
            break
        [identifier, *_] = found[identifier]["parents"]  # type: ignore[misc]
    tables: dict[str, int] = {}
    for step in reversed(line):
        tables.update(step["tables"])  # type: ignore[call-overload]
    return {name: version for name, version in tables.items() if version is not None}


def test_a_branch_that_was_reset_to_before_its_start(tmp_path: Path) -> None:
    """Of the dropped branch that it came from, it has the snapshots: older ones than its start."""
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint"}, key="id")
        first = main.clone("first")
        first.insert("t", {"id": [1]})
        first.insert("t", {"id": [2]})
        other, late = first.clone("other"), first.clone("late")
        other.insert("t", {"id": [3]})
        late.reset("late~1")
        db.drop_branch("first")
        graph = db.graph()
        check_places(graph)
        assert [node.is_start for node in on(graph, "late")] == [False, True]
        assert "late" in graph.to_text()
