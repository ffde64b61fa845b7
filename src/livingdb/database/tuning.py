"""What a database does about its own cost: observing, advice, a budget."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import EllipsisType
from typing import TYPE_CHECKING

from livingdb.access.roles import Role
from livingdb.errors import InvalidData
from livingdb.graph.graph import Graph, now
from livingdb.graph.storage.observe import MODES

if TYPE_CHECKING:
    from livingdb.catalog.tuning import TuningRow
    from livingdb.maintenance.tuning.advice import Advice
    from livingdb.maintenance.tuning.budget import Budget

__all__ = ["Tuning"]


class Tuning(ABC):
    """The part of a database that is about what its use costs."""

    @property
    @abstractmethod
    def _graph(self) -> Graph:
        """The graph of the open database."""

    @abstractmethod
    def _require_everywhere(self, role: Role, what: str) -> None:
        """`Forbidden` unless who acts here has a role on the database itself."""

    @abstractmethod
    def _noting(self, action: str, subject: object = "") -> AbstractContextManager[None]:
        """Do inside what is no proposal; once it is done, it is written down that a user did it."""

    @property
    def tuning(self) -> str:
        """Whether the database observes how it is used, or does something about it.

        "observe"  it observes, and `tune` advises
        "auto"     the runner also applies what pays, one change at a time
        "off"      nothing is counted in any process, and what was is forgotten

        What is observed names tables and columns and no values, is bounded, and fades.
        """
        self._graph.observe_now()
        return self._graph.observer.mode

    @tuning.setter
    def tuning(self, value: str) -> None:
        if value not in MODES:
            raise InvalidData(f"tuning {value!r}: choose 'observe', 'auto' or 'off'")
        self._require_everywhere(Role.MAINTAINER, "change how the database is tuned")
        with self._noting("set tuning", value):
            self._graph.observer.turn(value)

    def tune(self, apply: bool = False, seconds: float = 10.0) -> list[Advice]:
        """What would make the observed work cost less, the best first; then what is in force.

        Each advice says what to do, why, what it would gain by the cost model, and what it gained
        where it was tried: on a hidden copy, with a sample of the observed work, all within so
        many seconds.  What does not pay is dropped and remembered.  `apply`: do the best one, and
        no other; it can be undone at any time, and is undone by itself if later work gets slower.
        Nothing that anybody reads changes.
        """
        from livingdb.database.status import check_limits
        from livingdb.maintenance.tuning.tune import tune

        check_limits(seconds, None)
        if not isinstance(apply, bool):
            raise InvalidData(f"apply={apply!r}: True or False")
        self._require_everywhere(Role.MAINTAINER, "tune the database")
        graph = self._graph
        if apply:
            graph.check_writable()
        with self._noting("tune and apply" if apply else "tune"):
            rows = tune(graph, apply, seconds, now()).rows
        return self._advice_of(rows)

    def advices(self) -> list[Advice]:
        """All advice that is on record, and what became of it; the oldest first."""
        self._require_everywhere(Role.MAINTAINER, "tune the database")
        return self._advice_of(self._graph.catalog.tuning.all())

    def advice(self, number: int) -> Advice:
        """An advice by its number, as `livingdb.tuning` shows it; `NotFound` if there is none."""
        from livingdb.maintenance.tuning.records import require_record

        self._require_everywhere(Role.MAINTAINER, "tune the database")
        return self._advice_of([require_record(self._graph, number)])[0]

    def _advice_of(self, rows: Sequence[TuningRow]) -> list[Advice]:
        from livingdb.maintenance.tuning.advice import Advice

        return [Advice(self._graph, row, self._permit_advice) for row in rows]

    @contextmanager
    def _permit_advice(self, action: str, number: int) -> Iterator[None]:
        self._require_everywhere(Role.MAINTAINER, action)
        with self._noting(action, number):
            yield

    def budget(self, bytes: int | EllipsisType | None = ...) -> Budget:
        """How many bytes the database may take, and takes; with `bytes`, set that first.

        None: any number.  What is over the budget is evicted by `tune(apply=True)`, or by the
        runner if `tuning` is "auto": trees, projections and answers that can be made again, those
        of least use for a byte first, and never data.
        """
        from livingdb.maintenance.tuning.budget import read_budget, set_budget

        role = Role.READER if isinstance(bytes, EllipsisType) else Role.MAINTAINER
        self._require_everywhere(role, "look at or set the budget")
        if isinstance(bytes, EllipsisType):
            return read_budget(self._graph)
        with self._noting("set budget"):
            return set_budget(self._graph, bytes)
