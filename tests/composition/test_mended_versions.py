"""Programs about the versions of derived objects that once failed: what is mended stays so."""

from __future__ import annotations

import pytest
from tests.composition.graph_operations import Clone, Merge, Reset, TimeTravel
from tests.composition.machine import Program, run
from tests.composition.pieces import COUNT, GROUP, INSERT, OTHER_ROW, VIEW
from tests.composition.queries import Query
from tests.composition.row_operations import Write
from tests.composition.schema_model import AddColumn
from tests.composition.schema_operations import Evolve
from tests.composition.view_operations import Derive, Detach, Propagate, Reattach, Redefine

CITIES = Query("distinct", ("orders",), (("g", "city"),))
INSERT_OTHER = Write("main", (("insert", "orders", (OTHER_ROW,)),))
DELETE = Write("main", (("delete", "orders", ((1,),)),))
LOOK_BACK = [TimeTravel("main", steps) for steps in range(3)]


def redefined_and_reset(when: str, *meanwhile: Write) -> Program:
    """A view goes on from a version of before its definition."""
    return Program(
        [
            VIEW,
            INSERT_OTHER,
            Redefine("v", CITIES, when),
            Detach("v"),
            Reset("v", 1),
            *LOOK_BACK,
            *meanwhile,
            Reattach("v"),
            *LOOK_BACK,
            DELETE,
            Propagate(),
            *LOOK_BACK,
        ]
    )


MENDED = {
    "reattach_of_a_view_reset_to_before_its_definition": redefined_and_reset("immediate"),
    "reattach_of_a_later_view_reset_to_before_its_definition": redefined_and_reset("deferred"),
    "reattach_of_a_view_reset_to_before_its_definition_whose_source_moved": redefined_and_reset(
        "deferred", INSERT
    ),
    "merge_of_a_view_into_a_branch_made_of_it": Program(
        [
            Derive("main", "v", COUNT, "immediate"),
            Evolve("v", (AddColumn("v", "rank", "computed", "cc"),), "to", "new"),
            INSERT,
            Merge("v", "new", "fail"),
            INSERT_OTHER,
            Merge("v", "new", "fail"),
        ]
    ),
    "merge_of_clones_of_a_view_and_into_it": Program(
        [
            Derive("main", "v", GROUP, "immediate"),
            Clone("v", "new"),
            INSERT,
            Clone("v", "third"),
            Merge("third", "new", "fail"),
            INSERT_OTHER,
            Merge("v", "new", "fail"),
            Detach("v"),
            Write("new", (("delete", "v", (("a",),)),)),
            Merge("new", "v", "theirs"),
            Reattach("v"),
            DELETE,
        ]
    ),
}


@pytest.mark.parametrize("name", MENDED)
def test_mended(name: str) -> None:
    run(MENDED[name])
