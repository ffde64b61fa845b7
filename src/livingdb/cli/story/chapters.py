"""Who tells the story: chapter after chapter, each as soon as it has happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import livingdb
from livingdb.cli.shop import Shop
from livingdb.cli.story import beginning, ending, following, looking_back, returns, trouble
from livingdb.cli.story.page import Chapter, Page, measure_time
from livingdb.cli.story.stage import DemoContext, Progress

__all__ = ["CHAPTERS", "tell"]

CHAPTERS: tuple[tuple[str, Callable[[DemoContext, Page], None]], ...] = (
    ("A shop moves in", beginning.load),
    ("The schema changes, and the old application stays", beginning.evolve),
    ("A dashboard, an hourly report and a model", following.derive),
    ("A masked copy for an analyst", following.mask),
    ("What if? A branch, a conflict, a merge", trouble.what_if),
    ("An UPDATE without WHERE", trouble.mistake),
    ("Where does that number come from?", looking_back.trace),
    ("The dashboard as it was", looking_back.travel),
    ("What is left", ending.weigh),
)
"""Every chapter: its title, and what happens in it."""


def tell(
    folder: Path, rows: int, progress: Progress, picture: Path | None = None
) -> Iterator[Chapter]:
    """Let the story happen in a folder; the database is `shop.ldb` there."""
    place = folder / "shop.ldb"
    with livingdb.create(place, author="you", trust=[returns.__name__]) as db:
        stage = DemoContext(folder, db, Shop.of(rows), progress, picture)
        for number, (title, happen) in enumerate(CHAPTERS, 1):
            page = Page()
            with measure_time() as clock:
                happen(stage, page)
            yield Chapter(number, title, clock.seconds, tuple(page.parts), dict(page.facts))
