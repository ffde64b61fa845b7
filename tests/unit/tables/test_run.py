"""Runs: stored beside versions, they change what a read costs and nothing else."""

from __future__ import annotations

import random

import pytest
from tests.unit.tables.lab import Lab

from livingdb.chunks.address import Address
from livingdb.errors import Corruption
from livingdb.tables.evict import evict
from livingdb.tables.index import Stretch, Version, ancestor_at
from livingdb.tables.layout import Layout
from livingdb.tables.run import run_start
from livingdb.trees.delta import merge_deltas

CHANGES = 600
Model = dict[int, tuple[int | None, str | None]]


def rows_of(model: Model) -> list[dict[str, object]]:
    return [{"id": key, "a": a, "b": b} for key, (a, b) in sorted(model.items())]


def change(lab: Lab, head: Version, model: Model, chance: random.Random, number: int) -> Version:
    """One small change of any kind; the model follows."""
    key, kind = chance.randrange(120), chance.randrange(4)
    if kind == 0:
        model.pop(key, None)
        return lab.delete(head, [key])
    if kind == 1:
        if key in model:
            model[key] = number, model[key][1]
        return lab.patch(head, {"id": [key], "a": [number]})
    if kind == 2:
        if key in model:
            model[key] = model[key][0], None
        return lab.patch(head, {"id": [key], "b": [None]})
    model[key] = number, str(number)
    return lab.upsert(head, {"id": [key], "a": [number], "b": [str(number)]})


@pytest.fixture(scope="module")
def history() -> tuple[Lab, list[tuple[Version, Model]]]:
    """A table, all of its versions, and what each of them holds; one of them is a tree."""
    lab = Lab({"id": "int", "a": "int", "b": "string"}, "id", Layout(fold="never"))
    model: Model = {key: (key, None) for key in range(60)}
    head = lab.create(rows_of(model))
    made, chance = [(head, dict(model))], random.Random(11)
    for number in range(CHANGES):
        head = change(lab, head, model, chance, number)
        made.append((head, dict(model)))
        if number == 99:
            lab.fold(head)
    return lab, made


def test_few_runs_make_up_a_line() -> None:
    assert [run_start(depth, 0) for depth in (0, 1, 31, 33)] == [None] * 4
    assert [run_start(depth, 0) for depth in (32, 64, 256, 288, 512)] == [0, 32, 0, 256, 256]
    assert run_start(2048, 0) == 0
    assert run_start(132, 100) == 100


def test_every_version_reads_the_same_over_runs(
    history: tuple[Lab, list[tuple[Version, Model]]],
) -> None:
    lab, made = history
    for version, model in [*made[::37], made[-1]]:
        lab.reopen()
        assert lab.rows(version) == rows_of(model)


def test_a_reader_reads_few_changes(history: tuple[Lab, list[tuple[Version, Model]]]) -> None:
    lab, made = history
    version, model = made[100 + 31 + 6 * 32]
    parts = lab.index.line(version, 100, 1000)
    assert [part.run is not None for part in parts] == [False] * 31 + [True] * 6
    lab.reopen()
    assert lab.rows(version) == rows_of(model)
    assert len(lab.store.read) <= 2 * len(parts) + 3, "a recipe and a delta a part, and the tree"


def test_runs_over_a_tree_that_went_are_read_with_the_changes_before_them(
    history: tuple[Lab, list[tuple[Version, Model]]],
) -> None:
    lab, made = history
    version, model = made[-1]
    tree = ancestor_at(lab.index, version, 100)
    evict(lab.versions, tree)
    lab.reopen()
    assert lab.rows(version) == rows_of(model)
    assert len(lab.index.line(version, 0, 1000)) < 100
    lab.fold(tree)


def test_a_run_is_the_same_however_it_was_merged(
    history: tuple[Lab, list[tuple[Version, Model]]],
) -> None:
    lab, made = history
    runs = [part.run for part in lab.index.line(made[-1][0], 100, 1000) if part.run is not None]
    assert {made_of.depth for made_of in runs} >= {100, 356}
    for run in runs:
        first, last = run.depth, lab.versions.require(run.version).depth
        deltas = [lab.versions.delta(version) for version, _ in made[first + 1 : last + 1]]
        since = made[first][0]
        again = lab.versions.runs.merged_change(since, merge_deltas(deltas), lambda _: None)
        assert again.address == run.change


def test_changes_of_many_rows_get_no_runs() -> None:
    lab = Lab({"id": "int", "a": "int"}, "id")
    head = lab.create({"id": [0], "a": [0]})
    for number in range(64):
        rows = 100 if number < 32 else 2
        head = lab.upsert(head, {"id": range(rows), "a": [number] * rows})
    parts = lab.index.line(head, 0, 1000)
    assert parts[0].run is not None
    assert parts[1:] == [Stretch(ancestor_at(lab.index, head, depth)) for depth in range(32, 0, -1)]


def test_who_cannot_read_old_changes_goes_on_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab({"id": "int", "a": "int"}, "id")
    head = lab.create({"id": [0], "a": [0]})
    for number in range(31):
        head = lab.upsert(head, {"id": [0], "a": [number]})
    lab.reopen().definition(head)

    def damaged(address: Address) -> bytes:
        raise Corruption("not to be read")

    with monkeypatch.context() as patched:
        patched.setattr(lab.store, "get", damaged)
        head = lab.upsert(head, {"id": [0], "a": [31]})
    assert lab.index.line(head, 0, 1)[0].run is None
    assert lab.rows(head) == [{"id": 0, "a": 31}]
