"""What fails or is refused today, each with the reason; the list can only become shorter.

An entry speaks of failures: by the law, the kind of sync and the operations that met.
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


KNOWN: tuple[Known, ...] = ()
"""There is nothing."""
