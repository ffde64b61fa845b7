"""Views come after those that they read, whatever order they were made in."""

from __future__ import annotations

from itertools import permutations

import pytest

from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carrying.carry_view import Views, topological_order
from livingdb.derivation.view import SourceTable, View

MAIN = "1"


def derived(
    number: int,
    target: str,
    *sources: str,
    when: str = "immediate",
    uses: dict[str, list[str]] | None = None,
    snapshot: str = "",
) -> tuple[SyncRow, View]:
    tables = {f"t{one}": SourceTable(one, f"t{one}", snapshot) for one in sources}
    view = View(f"v{target}", "sql", tables, home=MAIN, uses=uses or {})
    sync = SyncRow(
        f"s{number}", view.name, "derive", view.branches, target, "forward", when, "active", "", 0,
        view.to_json(), number=number,
    )  # fmt: skip
    return sync, view


def targets(views: tuple[tuple[SyncRow, View], ...]) -> list[str]:
    return [sync.target for sync, _ in views]


@pytest.mark.parametrize("numbers", list(permutations(range(4))))
def test_every_view_comes_after_what_it_reads(numbers: tuple[int, ...]) -> None:
    reads = {"10": (MAIN,), "11": ("10",), "12": ("10", "11"), "13": (MAIN, "12")}
    views = [
        derived(number, target, *reads[target])
        for number, target in zip(numbers, reads, strict=True)
    ]
    found = targets(topological_order(views))
    assert sorted(found) == sorted(reads)
    for target, sources in reads.items():
        for source in sources:
            assert source == MAIN or found.index(source) < found.index(target)


def test_views_that_do_not_read_each_other_come_by_age() -> None:
    views = [derived(3, "10", MAIN), derived(1, "11", MAIN), derived(2, "12", MAIN)]
    assert targets(topological_order(views)) == ["11", "12", "10"]
    assert topological_order([]) == ()


def test_a_view_of_the_past_waits_for_nobody_but_its_home() -> None:
    views = [derived(1, "10", "11", snapshot="ab" * 32), derived(2, "11", MAIN)]
    assert targets(topological_order(views)) == ["10", "11"]


def test_readers_of_a_table_are_known_by_the_columns_they_read() -> None:
    syncs = [
        derived(1, "10", MAIN, uses={"t1": ["a", "b"]}),
        derived(2, "11", MAIN, uses={"t1": ["b", "a"]}),
        derived(3, "12", MAIN, uses={"t1": ["c"]}),
        derived(4, "13", MAIN, when="deferred"),
        derived(5, "14", MAIN, snapshot="ab" * 32),
        derived(6, "15", "10"),
    ]
    found = Views.of([sync for sync, _ in syncs])
    assert targets(found.every) == ["10", "11", "12", "13", "14", "15"]
    assert found.immediate == {
        (MAIN, "t1"): {frozenset("ab"): [0, 1], frozenset("c"): [2]},
        ("10", "t10"): {None: [5]},
    }
    assert found.columns == {(MAIN, "t1"): ["a", "b", "c"]}


def test_a_reader_of_all_columns_makes_all_of_them_matter() -> None:
    syncs = [derived(1, "10", MAIN, uses={"t1": ["a"]}), derived(2, "11", MAIN)]
    assert Views.of([sync for sync, _ in syncs]).columns == {}


def test_only_views_are_among_the_views() -> None:
    sync, _ = derived(1, "10", MAIN)
    other = SyncRow("s2", "x", "schema_change", ("1",), "2", "both", "immediate", "active", "", 0)
    assert targets(Views.of([other, sync]).every) == ["10"]
