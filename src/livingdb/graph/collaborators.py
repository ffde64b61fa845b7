"""What the layers above do for a graph, which knows nothing of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from livingdb.graph.large_work import LargeWork
from livingdb.tables.evaluator import Evaluator

__all__ = ["Collaborators"]


@dataclass(frozen=True)
class Collaborators:
    """Who does for a graph what it does not do itself.

    large        does large work; None: nobody, this process does it
    evaluators   read versions that are derived, by the kind of their recipe
    on_alert     called when a transaction leaves alerts to be sent
    """

    large: LargeWork | None = None
    evaluators: Mapping[str, Evaluator] = field(default_factory=dict)
    on_alert: Callable[[], None] | None = None
