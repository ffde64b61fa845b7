"""Finds anomalies in a history of transactions that append to lists and read them.

Every element is appended once, so a list that is read tells who wrote it and in which order.  From
that follow the dependencies of transactions: who wrote after whom (ww), who read whose write (wr),
and who did not see whose write (rw); the anomalies of Adya are cycles of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

__all__ = ["Append", "Read", "Transaction", "anomalies"]


@dataclass(frozen=True)
class Append:
    """Put an element at the end of the list of a key."""

    key: int
    element: int


@dataclass(frozen=True)
class Read:
    """See the list of a key."""

    key: int
    elements: tuple[int, ...]


@dataclass(frozen=True)
class Transaction:
    """What one did, in its order; whether it committed, failed, or nobody knows."""

    steps: Sequence[Append | Read]
    outcome: Literal["ok", "failed", "unknown"] = "ok"

    @property
    def appends(self) -> list[Append]:
        """What it wrote."""
        return [step for step in self.steps if isinstance(step, Append)]

    @property
    def reads(self) -> list[Read]:
        """What it saw."""
        return [step for step in self.steps if isinstance(step, Read)]


Edge = tuple[int, int]


def anomalies(
    history: Sequence[Transaction], final: dict[int, tuple[int, ...]], serializable: bool = False
) -> set[str]:
    """The names of what is wrong; `final` is what the lists hold in the end."""
    work = _Checker([*history, Transaction([Read(k, e) for k, e in sorted(final.items())])])
    found = set(work.wrong_reads())
    found |= set(work.lost_writes(final))
    if "incompatible order" not in found:
        found |= set(work.cycles(serializable))
    return found


class _Checker:
    def __init__(self, history: Sequence[Transaction]) -> None:
        self.history = _with_known_ends(history)
        self.writers = {
            step.element: number
            for number, transaction in enumerate(history)
            for step in transaction.appends
        }
        orders: dict[int, tuple[int, ...]] = {}
        for read in self._committed_reads():
            if len(read.elements) > len(orders.get(read.key, ())):
                orders[read.key] = read.elements
        self.orders = orders

    def _committed_reads(self) -> Iterator[Read]:
        for transaction in self.history:
            if transaction.outcome == "ok":
                yield from transaction.reads

    # --- what single reads show --------------------------------------------------------------

    def wrong_reads(self) -> Iterator[str]:
        for number, transaction in enumerate(self.history):
            if transaction.outcome != "ok":
                continue
            if not _is_consistent(transaction):
                yield "internal"
            for read in transaction.reads:
                yield from self._wrong_read(number, read)

    def _wrong_read(self, reader: int, read: Read) -> Iterator[str]:
        if len(set(read.elements)) < len(read.elements):
            yield "duplicate"
        outer = [e for e in read.elements if self.writers.get(e) != reader]
        if tuple(outer) != self.orders.get(read.key, ())[: len(outer)]:
            yield "incompatible order"
        for element in outer:
            writer = self.writers.get(element)
            if writer is None or self.history[writer].outcome == "failed":
                yield "G1a"
        if outer and outer[-1] in self.writers:
            writer = self.writers[outer[-1]]
            own = [s.element for s in self.history[writer].appends if s.key == read.key]
            if writer != reader and own[-1] != outer[-1]:
                yield "G1b"

    # --- what is missing ---------------------------------------------------------------------

    def lost_writes(self, final: dict[int, tuple[int, ...]]) -> Iterator[str]:
        """Acknowledged appends that are not there, and two writers of one version."""
        seen: dict[tuple[int, int], int] = {}
        for number, transaction in enumerate(self.history):
            if transaction.outcome != "ok":
                continue
            if any(step.element not in final.get(step.key, ()) for step in transaction.appends):
                yield "lost write"
            known: dict[int, int] = {}
            for step in transaction.steps:
                if isinstance(step, Read):
                    known.setdefault(step.key, len(step.elements))
                elif step.key in known:
                    other = seen.setdefault((step.key, known[step.key]), number)
                    if other != number:
                        yield "lost update"

    # --- cycles ------------------------------------------------------------------------------

    def cycles(self, serializable: bool) -> Iterator[str]:
        writes, reads, misses = self._dependencies()
        if _is_cyclic(writes):
            yield "G0"
        if _is_cyclic(writes | reads):
            component = _components(writes | reads)
            if any(component[a] == component[b] for a, b in reads if a != b):
                yield "G1c"
        forward = _followers(writes | reads)
        component = _components(writes | reads | misses)
        within = [(a, b) for a, b in misses if component[a] == component[b]]
        if any(_leads(forward, b, a, component) for a, b in within):
            yield "G-single"
        elif serializable and within:
            yield "G2"

    def _dependencies(self) -> tuple[set[Edge], set[Edge], set[Edge]]:
        """Pairs of transactions: ww, wr and rw."""
        writes, reads, misses = set[Edge](), set[Edge](), set[Edge]()
        for order in self.orders.values():
            by = [self.writers[element] for element in order if element in self.writers]
            writes |= {(a, b) for a, b in pairwise(by) if a != b}
        for number, transaction in enumerate(self.history):
            if transaction.outcome != "ok":
                continue
            for read in transaction.reads:
                order = self.orders.get(read.key, ())
                outer = [e for e in read.elements if self.writers.get(e) != number]
                if outer and outer[-1] in self.writers:
                    reads.add((self.writers[outer[-1]], number))
                following = [self.writers.get(e, number) for e in order[len(outer) :]]
                after = next((w for w in following if w != number), None)
                if after is not None:
                    misses.add((number, after))
        return writes, reads, misses


def _with_known_ends(history: Sequence[Transaction]) -> list[Transaction]:
    """Those of which nobody knows have committed if somebody saw what they wrote."""
    seen = {
        element
        for transaction in history
        if transaction.outcome == "ok"
        for read in transaction.reads
        for element in read.elements
    }
    return [
        replace(one, outcome="ok")
        if one.outcome == "unknown" and any(step.element in seen for step in one.appends)
        else one
        for one in history
    ]


def _is_consistent(transaction: Transaction) -> bool:
    """Whether it saw what it had written and seen before."""
    known: dict[int, tuple[int, ...]] = {}
    added: dict[int, list[int]] = defaultdict(list)
    for step in transaction.steps:
        if isinstance(step, Append):
            if step.key in known:
                known[step.key] = (*known[step.key], step.element)
            added[step.key].append(step.element)
            continue
        mine = tuple(added[step.key])
        if step.key in known and known[step.key] != step.elements:
            return False
        if mine and step.elements[-len(mine) :] != mine:
            return False
        known[step.key] = step.elements
    return True


def _followers(edges: Iterable[Edge]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for first, second in edges:
        found[first].append(second)
    return found


def _leads(forward: dict[int, list[int]], start: int, end: int, component: dict[int, int]) -> bool:
    """Whether a way leads from one to the other, all of it where both are."""
    waiting, seen = [start], {start}
    while waiting:
        here = waiting.pop()
        if here == end:
            return True
        for there in forward.get(here, ()):
            if there not in seen and component[there] == component[end]:
                seen.add(there)
                waiting.append(there)
    return False


def _is_cyclic(edges: set[Edge]) -> bool:
    component = _components(edges)
    return len(set(component.values())) < len(component)


def _components(edges: set[Edge]) -> dict[int, int]:
    """The strongly connected component of each transaction (Tarjan's, without recursion)."""
    forward = _followers(edges)
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    component: dict[int, int] = {}
    path: list[int] = []
    for root in sorted({end for edge in edges for end in edge}):
        if root in number:
            continue
        number[root] = low[root] = len(number)
        path.append(root)
        stack = [(root, iter(forward.get(root, ())))]
        while stack:
            here, others = stack[-1]
            there = next(others, None)
            if there is not None:
                if there not in number:
                    number[there] = low[there] = len(number)
                    path.append(there)
                    stack.append((there, iter(forward.get(there, ()))))
                elif there not in component:
                    low[here] = min(low[here], number[there])
                continue
            stack.pop()
            if stack:
                low[stack[-1][0]] = min(low[stack[-1][0]], low[here])
            if low[here] == number[here]:
                while True:
                    member = path.pop()
                    component[member] = here
                    if member == here:
                        break
    return component
