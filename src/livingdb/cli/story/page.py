"""What a chapter tells: sentences, lines of code, listings, and the facts behind them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = [
    "Chapter",
    "Clock",
    "Code",
    "Listing",
    "Page",
    "Part",
    "Sentence",
    "bytes_text",
    "measure_time",
]


@dataclass(frozen=True)
class Sentence:
    """A sentence or two."""

    text: str


@dataclass(frozen=True)
class Code:
    """What somebody typed, and how long it took; None: nobody looked at the clock."""

    text: str
    seconds: float | None = None


@dataclass(frozen=True)
class Listing:
    """Rows beneath titles, or text as it stands, if there are none."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...] = ()
    text: str = ""


Part: TypeAlias = Sentence | Code | Listing


@dataclass(frozen=True)
class Chapter:
    """One chapter: what people read, and what scripts want to know."""

    number: int
    title: str
    seconds: float
    parts: tuple[Part, ...]
    facts: Mapping[str, Any]


@dataclass
class Page:
    """A chapter while it is written."""

    parts: list[Part] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """Tell something."""
        self.parts.append(Sentence(text))

    def code(self, text: str, seconds: float | None = None) -> None:
        """Show what was typed."""
        self.parts.append(Code(text, seconds))

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Show rows."""
        self.parts.append(Listing(tuple(columns), tuple(tuple(row) for row in rows)))

    def text(self, text: str) -> None:
        """Show text as it stands."""
        self.parts.append(Listing((), text=text))

    def add_facts(self, **facts: Any) -> None:
        """Note what scripts want to know."""
        self.facts.update(facts)


@dataclass
class Clock:
    """How long something took."""

    seconds: float = 0.0


@contextmanager
def measure_time() -> Iterator[Clock]:
    """Look at the clock before and after."""
    clock, started = Clock(), time.perf_counter()
    try:
        yield clock
    finally:
        clock.seconds = time.perf_counter() - started


def bytes_text(size_bytes: int) -> str:
    """Bytes for people."""
    if size_bytes < 10_000:
        return f"{size_bytes:,} B"
    if size_bytes < 10_000_000:
        return f"{size_bytes / 1000:,.0f} kB"
    return f"{size_bytes / 1_000_000:,.1f} MB"
