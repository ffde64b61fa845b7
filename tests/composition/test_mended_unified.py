"""Programs about columns that come about twice, and what reads them: what is mended stays so."""

from __future__ import annotations

import pytest
from tests.composition.graph_operations import Clone, Merge, Reset
from tests.composition.machine import Program, run
from tests.composition.pieces import ADD_RANK, INSERT, MASK
from tests.composition.queries import Query
from tests.composition.row_operations import Write
from tests.composition.schema_model import Change, RenameColumn
from tests.composition.schema_operations import Evolve, TransformClone
from tests.composition.step import Step
from tests.composition.view_operations import Derive, Propagate, Twin

WHENS = [(clone, view) for clone in ("immediate", "deferred") for view in ("immediate", "deferred")]
COMES_TO_MAIN = (
    Clone("main", "dev"),
    Evolve("dev", (ADD_RANK,)),
    INSERT,
    Merge("dev", "main", "fail"),
)
POINTS = RenameColumn("orders", "rank", "points")


def top(column: str) -> Query:
    return Query("top", ("orders",), (("k", "id"), ("n", column)))


def set_value(column: str) -> Write:
    return Write("main", (("update", "orders", ((("id", 1), (column, 9)),)),))


def over_clone(
    whens: tuple[str, str], *steps: Step, changes: tuple[Change, ...] = (ADD_RANK,)
) -> list[Step]:
    """A view of a column that a clone adds, which then comes to the source of the clone as well."""
    clone, view = whens
    return [
        TransformClone("main", "m", changes, clone),
        Derive("m", "v", top("rank"), view),
        *COMES_TO_MAIN,
        *steps,
    ]


def active_after(steps: list[Step]) -> None:
    """A program runs, and nothing that it keeps in step has stopped."""
    world = run(Program(steps))
    assert {sync.state for sync in world.model.syncs.values()} == {"active"}


@pytest.mark.parametrize("whens", WHENS)
@pytest.mark.parametrize("changes", [(ADD_RANK,), (MASK, ADD_RANK)])
def test_view_of_a_clone_goes_on(whens: tuple[str, str], changes: tuple[Change, ...]) -> None:
    steps = (Propagate(), set_value("rank"), Propagate(), INSERT, Propagate())
    active_after(over_clone(whens, *steps, changes=changes))


@pytest.mark.parametrize("whens", WHENS)
@pytest.mark.parametrize("between", [(), (Propagate(),)])
def test_view_goes_on_where_the_column_goes_again(
    whens: tuple[str, str], between: tuple[Step, ...]
) -> None:
    """The clone has its own again."""
    steps = (*between, set_value("rank"), *between, Reset("main", 3), Propagate(), INSERT)
    active_after(over_clone(whens, *steps, Propagate()))


@pytest.mark.parametrize("whens", WHENS)
@pytest.mark.parametrize("between", [(), (Propagate(),)])
def test_view_goes_on_where_the_column_gets_another_name(
    whens: tuple[str, str], between: tuple[Step, ...]
) -> None:
    steps = (*between, Evolve("main", (POINTS,)), *between, set_value("points"), Propagate())
    active_after(over_clone(whens, *steps))


@pytest.mark.parametrize("whens", WHENS)
def test_view_of_a_clone_of_a_clone_goes_on(whens: tuple[str, str]) -> None:
    clone, view = whens
    active_after(
        [
            TransformClone("main", "m", (ADD_RANK,), clone),
            TransformClone("m", "n", (POINTS,), clone),
            Derive("n", "v", top("points"), view),
            *COMES_TO_MAIN,
            Propagate(),
            set_value("rank"),
            Propagate(),
        ]
    )


@pytest.mark.parametrize("view", ["immediate", "deferred"])
def test_view_of_a_chain_of_versions_goes_on(view: str) -> None:
    active_after(
        [
            Evolve("main", (ADD_RANK,), "to", "m", "forward"),
            Evolve("m", (POINTS,), "to", "n", "forward"),
            Derive("n", "v", top("points"), view),
            *COMES_TO_MAIN,
            Propagate(),
            set_value("rank"),
            Propagate(),
        ]
    )


@pytest.mark.parametrize("view", ["immediate", "deferred"])
def test_view_of_a_twin_goes_on(view: str) -> None:
    """The column of the one came to the source of both."""
    active_after(
        [
            Evolve("main", (ADD_RANK,), "to", "new", "forward"),
            Twin("new", "t"),
            Merge("new", "main", "fail"),
            Derive("t", "v", top("rank"), view),
            Propagate(),
            set_value("rank"),
            Propagate(),
        ]
    )
