"""The chapters of the demonstration, each told as soon as it has happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import livingdb
from livingdb.cli.shop import Shop
from livingdb.cli.story import (
    closing_check,
    derive_mask,
    load_evolve,
    merge_guard,
    returns,
    trace_travel,
)
from livingdb.cli.story.demo_context import DemoContext, Progress
from livingdb.cli.story.page import Chapter, Page, measure_time

__all__ = ["CHAPTERS", "tell"]

CHAPTERS: tuple[tuple[str, Callable[[DemoContext, Page], None]], ...] = (
    ("A shop moves in", load_evolve.load),
    ("The schema changes, and the old application stays", load_evolve.evolve),
    ("A dashboard, an hourly report and a model", derive_mask.derive),
    ("A masked copy for an analyst", derive_mask.mask),
    ("What if? A branch, a conflict, a merge", merge_guard.what_if),
    ("An UPDATE without WHERE", merge_guard.mistake),
    ("Where does that number come from?", trace_travel.trace),
    ("The dashboard as it was", trace_travel.travel),
    ("What is left", closing_check.weigh),
)
"""Every chapter: its title, and what happens in it."""


def tell(
    folder: Path, rows: int, progress: Progress, picture: Path | None = None
) -> Iterator[Chapter]:
    """Let the story happen in a folder; the database is `shop.ldb` there."""
    place = folder / "shop.ldb"
    with livingdb.create(place, author="you", trust=[returns.__name__]) as db:
        demo = DemoContext(folder, db, Shop.of(rows), progress, picture)
        for number, (title, happen) in enumerate(CHAPTERS, 1):
            page = Page()
            with measure_time() as clock:
                happen(demo, page)
            yield Chapter(number, title, clock.seconds, tuple(page.parts), dict(page.facts))
