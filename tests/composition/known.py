"""What fails or is refused today, each with the reason; the list can only become shorter.

An entry speaks of failures: by the law, the kind of sync and the operations that met.  Each has a
smallest program in `test_found.py` that shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.composition.model import Model
from tests.composition.step import Step

if TYPE_CHECKING:
    from tests.composition.machine import Failure

__all__ = ["KNOWN", "Known"]


@dataclass(frozen=True)
class Known:
    """A failure that is known."""

    name: str
    reason: str
    matches: Callable[[Failure], bool]
    goes_on: bool = True
    """Whether a program can go on: nothing more is asked of the sync that was met."""
    avoids: Callable[[Step, Model], bool] | None = None
    """Steps that random programs leave out, since they would meet it every time."""
    races: bool = False
    """Whether it depends on which of two threads is first: a program has to be tried again."""


def fails(
    law: str,
    *steps: str,
    says: str = "",
    sync: str = "",
    met: str = "",
) -> Callable[[Failure], bool]:
    """Failures of a law, at one of these steps, whose detail and sync have these words in them.

    `met`: and an operation that was done since the sync was made.
    """

    def matches(failure: Failure) -> bool:
        kinds = () if failure.step is None else failure.step.kinds
        described = "" if failure.sync is None else failure.world.described(failure.sync)
        return (
            failure.law == law
            and (not steps or bool(set(steps) & set(kinds)))
            and re.search(says, failure.detail) is not None
            and re.search(sync, described) is not None
            and (not met or (failure.sync is not None and met in failure.sync.met))
        )

    return matches


def any_of(*matches: Callable[[Failure], bool]) -> Callable[[Failure], bool]:
    """Failures that one of these speaks of."""
    return lambda failure: any(one(failure) for one in matches)


def _renames_branch(step: Step, model: Model) -> bool:
    return step.kind == "RenameBranch"


KNOWN: tuple[Known, ...] = (
    # --- what is not there yet, or is refused ----------------------------------------------------
    Known(
        "rename_branch",
        "a branch cannot be renamed",
        fails("error", "RenameBranch", says="no attribute 'rename_branch'"),
        avoids=_renames_branch,
    ),
    Known(
        "revert_schema_change",
        "a schema change is not reverted, also where its lens has an inverse",
        fails("refused", "Revert", says="a schema change is not reverted"),
    ),
    Known(
        "cherry_pick_schema_change",
        "a schema change is not cherry-picked",
        fails("refused", "CherryPick", says="a schema change is not picked"),
    ),
    Known(
        "evolve_source_of_one_way_lens",
        "a branch that a one-way lens reads is not evolved in place: the change should follow",
        fails("refused", "Evolve", says="rule 4: .* stays with its present schema"),
    ),
    Known(
        "merge_schema_into_synced",
        "a merge that brings a schema change to a branch in a sync is refused",
        fails("refused", "Merge", says="rule 4: .* stays with its present schema"),
    ),
    # --- another definition ----------------------------------------------------------------------
    Known(
        "redefine_read",
        "a view that another one reads is not redefined",
        fails("refused", "Redefine", says="is in the sync of"),
    ),
    Known(
        "redefine_loses_versions",
        "a redefined view begins anew: its earlier versions are not below it",
        fails("versions", "Redefine"),
    ),
    Known(
        "redefine_orphans_readers",
        "what reads a redefined view, and is held or detached, has lost its source",
        fails("syncs", "Redefine", says=r"'\?/"),
        goes_on=False,
    ),
    # --- names that change -----------------------------------------------------------------------
    Known(
        "lag_without_table",
        "the lag of a sync raises where a table it reads has another name or is gone",
        fails("total", says="lag of .* which .* reads, is not there"),
    ),
    Known(
        "derived_at_before_table_rename",
        "there is no version of a view from before a table was renamed",
        fails("derived_at", "TimeTravel", says="which .* reads, is not there"),
    ),
    Known(
        "derived_at_of_evolved_view",
        "there is no version of a view whose own columns were changed while it was detached",
        fails("derived_at", "TimeTravel", says="^KeyError"),
    ),
    Known(
        "clone_follows_no_table",
        "a deferred clone stops when any table of its source is renamed or dropped",
        fails("stopped", says="which .* reads, is not there", sync="deferred lens"),
    ),
    Known(
        "clone_refresh_without_table",
        "a deferred clone cannot go on once a table of its source is renamed or dropped",
        fails("refused", "Refresh", "Reattach", says="which .* reads, is not there"),
    ),
    Known(
        "clone_follows_no_column",
        "a deferred clone stops when a column that it masks or changes is renamed",
        fails("stopped", says="there is no column", sync="deferred lens"),
    ),
    # --- lenses and views that meet --------------------------------------------------------------
    Known(
        "lens_over_immediate_view",
        "a lens over an immediate view is stale: it does not follow, and says it is not behind",
        fails("true", sync="lens .* over immediate view"),
    ),
    Known(
        "one_way_lens_refuses_commit",
        "a row that a one-way lens cannot carry is refused, instead of stopping the lens",
        fails("refused", says="(InvalidData|DuplicateKey).*in step with .* cannot take the change"),
    ),
    Known(
        "reattach_lens_after_schema_change",
        "a lens is reattached over a source of another schema by position: IndexError, or worse",
        fails("error", "Reattach", says="IndexError|Arrow|KeyError"),
    ),
    Known(
        "reattach_to_written",
        "a sync is reattached though another one writes its target now, against rules 3 and 5",
        fails("accepted", "Reattach"),
        goes_on=False,
    ),
    Known(
        "propagate_stops_at_immediate",
        "one propagate does not reach what is deferred behind an immediate sync of a deferred one",
        fails("lag", "Propagate", says="after propagate", sync="deferred .* over immediate"),
        races=True,
    ),
    Known(
        "propagate_skips_behind_held",
        "what reads a view that propagate finds to be held is not brought up to where the view is",
        fails("lag", "Propagate", says="after propagate", sync="over deferred"),
    ),
    Known(
        "refresh_changes_schema_under_lens",
        "a deferred clone whose source changed its schema stops if a lens reads the clone",
        any_of(
            fails("stopped", says="rule 4: .* stays with its present schema", sync="deferred"),
            fails(
                "refused", "Refresh", "Reattach", says="rule 4: .* stays with its present schema"
            ),
        ),
    ),
    Known(
        "reset_to_while_detached",
        "a reset to a moment at which a sync was detached leaves its sides out of step",
        fails("true", "Reset", sync="lens", met="Reattach"),
    ),
    Known(
        "up_kept_or_computed_anew",
        "a column that `up` fills keeps its value in an immediate clone, and not in a deferred one",
        fails("same", sync="AddColumn"),
    ),
    Known(
        "change_already_made",
        "a lens stops at a change that its source has made already, by a merge of the target",
        fails("stopped", says="there is a (table|column) .* already", sync="lens"),
    ),
    # --- merging schemas -------------------------------------------------------------------------
    Known(
        "merge_schema_change",
        "a schema change of the merged branch does not come along: the merge is refused",
        fails("refused", "Merge", says="MergeConflict"),
    ),
    Known(
        "merge_within_pair",
        "a merge between the two sides of a sync leaves them out of step",
        any_of(
            fails("true", "Merge", sync="^(both|forward) immediate lens"),
            fails("true", "Reattach", sync="immediate lens", met="Merge"),
            fails("true", "Write", sync="CreateTable", met="Merge"),
        ),
    ),
    Known(
        "replay_over_rename",
        "a snapshot from before a rename is not reverted or picked after it",
        fails("refused", "Revert", "CherryPick", says="MergeConflict"),
    ),
    # --- what is not whole -----------------------------------------------------------------------
    Known(
        "clone_derived_in_pieces",
        "clone(derived=True) that fails on a view leaves the clone behind",
        fails("refused whole", "CloneDerived"),
        goes_on=False,
    ),
    Known(
        "clone_of_keyless_view",
        "a lens over a view whose rows have a hidden key cannot be read",
        any_of(
            fails("read", says="Schema and number of arrays unequal|_row"),
            fails("error", "Reattach", says="Schema and number of arrays unequal"),
        ),
        goes_on=False,
    ),
    Known(
        "unreadable_after_overflow",
        "a column whose expression overflows for a row that is there makes the branch unreadable",
        fails("read", "AddColumn", says="overflow in multiplication"),
        goes_on=False,
    ),
    Known(
        "lineage_of_view_without_table",
        "column lineage of a detached view whose table was dropped or renamed raises",
        fails("total", says="column lineage of .*(has several tables|there is no table)"),
    ),
    Known(
        "lineage_of_evolved_view",
        "column lineage of a detached view that was given a column of its own raises",
        fails("total", says="column lineage of .*IndexError"),
    ),
    Known(
        "lineage_over_broken_clone",
        "column lineage over a clone raises once its source has lost a column that it changes",
        fails("total", says="column lineage of .*there is no column", sync="over deferred lens"),
    ),
    Known(
        "lineage_without_branch",
        "column lineage of a view raises once a branch that it reads was dropped",
        fails("total", says="column lineage of .*AssertionError"),
    ),
    Known(
        "lag_without_branch",
        "the lag of a sync raises once a branch that it reads was dropped",
        fails("total", says="lag of .* a branch that .* reads was dropped"),
    ),
    Known(
        "guarded_unstored_view_is_lost",
        "a view that is not stored and has a condition cannot be read once opened again",
        fails("total", "Reopen", says="Corruption.*is missing from the store"),
        goes_on=False,
    ),
)
