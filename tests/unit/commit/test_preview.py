"""A preview says what a merge would do, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb.commit.merging.merge import MergeOptions, merge, preview
from livingdb.errors import InvalidData, MergeConflict, NotFound, RuleViolation
from livingdb.evolution import AddColumn, AddConstraint
from livingdb.graph.graph import Graph


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    """`main` and `dev` have both gone on from ten rows."""
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as database:
        main = database.branch("main")
        for name in ("t", "same"):
            main.create_table(name, {"id": "bigint", "a": "bigint", "b": "bigint"}, key="id")
            main.insert(name, {"id": range(10), "a": range(10), "b": range(10)})
        dev = main.clone("dev")
        dev.update("t", {"id": [1, 2], "a": [11, 12]})
        dev.delete("t", [3])
        dev.insert("t", {"id": [20, 21, 22], "a": [0, 0, 0]})
        main.update("t", {"id": [8], "a": [88]})
        yield database


def weigh(graph: Graph) -> tuple[object, ...]:
    """Everything that a write would change."""
    branches = [(row.name, row.head, row.position) for row in graph.branches.all()]
    return branches, graph.catalog.write_counters(), len(graph.catalog.journal)


def test_a_preview_counts_the_rows_and_writes_nothing(db: livingdb.Database) -> None:
    graph = db._graph
    before = weigh(graph)
    found = preview(db._pipeline, "dev", "main", MergeOptions())
    assert found.merged.is_clean
    assert found.changes == {"t": (3, 2, 1)}
    assert set(found.tables) == {"t", "same"}
    assert not found.fast_forward
    assert weigh(graph) == before
    promised = found.merged.tables["t"]
    assert promised is not None
    assert graph.index.get(promised.address) is None, "a version that is nowhere is forgotten"
    assert db.check().ok


def test_the_merge_makes_what_the_preview_showed(db: livingdb.Database) -> None:
    graph = db._graph
    found = preview(db._pipeline, "dev", "main", MergeOptions())
    row = merge(db._pipeline, "dev", "main", MergeOptions(), "bo", "")
    promised = found.merged.tables["t"]
    assert promised is not None
    assert graph.tables(row)["t"] == promised.address, "the same version, by its content"
    assert preview(db._pipeline, "dev", "main", MergeOptions()).changes == {}
    assert preview(db._pipeline, "main", "dev", MergeOptions()).fast_forward


def test_a_conflict_is_shown_and_what_resolves_it_is_tried(db: livingdb.Database) -> None:
    graph = db._graph
    db.branch("main").update("t", {"id": [1], "b": [111]})
    before = weigh(graph)
    found = preview(db._pipeline, "dev", "main", MergeOptions())
    assert not found.merged.is_clean
    assert list(found.merged.conflicts) == ["t"]
    with pytest.raises(MergeConflict):
        merge(db._pipeline, "dev", "main", MergeOptions(), "bo", "")
    counts = {
        how: preview(db._pipeline, "dev", "main", options).changes["t"]
        for how, options in {
            "ours": MergeOptions("ours"),
            "theirs": MergeOptions("theirs"),
            "cells": MergeOptions(granularity="cell"),
        }.items()
    }
    assert counts == {"ours": (3, 1, 1), "theirs": (3, 2, 1), "cells": (3, 2, 1)}
    assert weigh(graph) == before


def test_a_fast_forward_is_seen(db: livingdb.Database) -> None:
    db.branch("dev").clone("next").update("t", {"id": [0], "a": [5]})
    found = preview(db._pipeline, "next", "dev", MergeOptions())
    assert found.fast_forward
    assert found.changes == {"t": (0, 1, 0)}
    back = preview(db._pipeline, "dev", "next", MergeOptions())
    assert not back.fast_forward
    assert back.changes == {}


def test_a_preview_sees_through_a_schema_change(db: livingdb.Database) -> None:
    graph = db._graph
    db.branch("main").evolve(AddColumn("t", "c", "bigint", default=7))
    before = weigh(graph)
    found = preview(db._pipeline, "dev", "main", MergeOptions())
    assert found.merged.is_clean
    assert found.changes == {"t": (3, 2, 1)}
    assert weigh(graph) == before
    merge(db._pipeline, "dev", "main", MergeOptions(), "bo", "")
    assert db.branch("main").table("t").get(20) == {"id": 20, "a": 0, "b": None, "c": 7}


def test_what_has_nothing_in_common_is_not_merged(db: livingdb.Database) -> None:
    db.branch("main").derive("view", "SELECT id, a FROM t")
    with pytest.raises(RuleViolation, match="both sides come from"):
        preview(db._pipeline, "view", "main", MergeOptions())


def test_wrong_options_and_names_are_refused(db: livingdb.Database) -> None:
    with pytest.raises(InvalidData):
        MergeOptions(granularity="table")
    with pytest.raises(InvalidData):
        MergeOptions("whoever")
    with pytest.raises(NotFound):
        preview(db._pipeline, "nobody", "main", MergeOptions())


def test_rows_that_only_together_break_a_rule(db: livingdb.Database) -> None:
    """Neither side is in the way of the other, and the merge would be refused: it says so."""
    main = db.branch("main")
    main.create_table("u", {"id": "bigint", "t": "bigint"}, key="id", foreign_keys={"t": "same"})
    main.evolve(AddConstraint("t", "small", "a + b < 1000"))
    dev = main.clone("next")
    dev.update("t", {"id": [5], "a": [600]})
    dev.insert("u", {"id": [1], "t": [7]})
    main.update("t", {"id": [5], "b": [600]})
    for granularity, refusal in (("row", ""), ("cell", "the key 5 breaks the check 'small'")):
        seen = db.preview_merge("next", "main", granularity=granularity)
        assert not seen.is_clean
        assert refusal in seen.refusal
        assert bool(seen.refusal) == bool(refusal), "conflicts come first"
    main.update("t", {"id": [5], "b": [5]})
    main.delete("same", [7])
    seen = db.preview_merge("next", "main", on_conflict="theirs")
    assert (seen.conflicts, seen.is_clean) == ({}, False)
    with pytest.raises(InvalidData) as caught:
        db.merge("next", "main", on_conflict="theirs")
    assert seen.refusal == str(caught.value)
    request = db.request_merge("next", "main", title="rows")
    dev.update("t", {"id": [5], "a": [5]})
    assert seen.refusal in request.problems()
    main.insert("same", {"id": [7]})
    assert db.preview_merge("next", "main", on_conflict="theirs").is_clean
