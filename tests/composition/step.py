"""A step of a program: one call, by value, with what the model expects of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Self

from tests.composition.model import Model, State

import livingdb
from livingdb import LivingDBError

__all__ = ["DONE", "SKIPPED", "Errors", "Expected", "Outcome", "Step", "maybe", "refused"]

Errors = tuple[type[LivingDBError], ...]


@dataclass(frozen=True)
class Expected:
    """Whether a call goes through: it does, it does not, or both are right."""

    what: str
    errors: Errors = ()
    why: str = ""
    allows: Callable[[LivingDBError], bool] = lambda error: True
    """Whether an error is right in what it says."""


DONE = Expected("done")
SKIPPED = Expected("skipped")


def refused(*errors: type[LivingDBError], why: str = "") -> Expected:
    """The call is refused, with one of these."""
    return Expected("refused", errors, why)


def maybe(*errors: type[LivingDBError]) -> Expected:
    """The call may be refused, with one of these."""
    return Expected("maybe", errors)


@dataclass
class Outcome:
    """What the model says of a call that went through."""

    states: Mapping[str, State] = field(default_factory=dict)
    """What some branches show afterwards, exactly."""
    moved: set[str] = field(default_factory=set)
    """Branches that may move beside those and what is in step with them."""
    like: Mapping[str, State] = field(default_factory=dict)
    """What some of them look like, but for their rows."""
    stopped: set[str] = field(default_factory=set)
    """Targets of syncs that somebody stops."""
    check: Callable[[Any], None] | None = None
    """What else has to hold, given the world."""


@dataclass(frozen=True)
class Step:
    """One call."""

    WRITES_ROWS: ClassVar[bool] = False
    """Whether it is a commit of rows on one branch."""
    REACHES_BACK: ClassVar[bool] = False
    """Whether it may need the rows of any snapshot there was, and is refused where they went."""

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        """A step that suits the model; None if there is none."""
        raise NotImplementedError

    def expected(self, model: Model) -> Expected:
        """Whether it goes through; skipped if it names what is not there."""
        raise NotImplementedError

    def call(self, db: livingdb.Database) -> Any:
        """Do it."""
        raise NotImplementedError

    def apply(self, model: Model) -> Outcome:
        """What it makes of the model; branches and syncs that it makes or drops are put there."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it does, in words that known failures speak of."""
        return (self.kind,)
