"""How it ends: the graph, what it weighs, whether it is sound, and what to try next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livingdb.cli.story.page import Page, bytes_text, measure_time

if TYPE_CHECKING:
    from livingdb.cli.story.demo_context import DemoContext

__all__ = ["weigh"]

_SHOWN_SNAPSHOTS = 12
_WIDTH = 96


def weigh(stage: DemoContext, page: Page) -> None:
    """The picture, the figures, the check."""
    db = stage.db
    graph = db.graph(limit=_SHOWN_SNAPSHOTS).to_text(width=_WIDTH)
    page.code("print(db.graph(limit=12).to_text())")
    page.text("\n".join(graph.splitlines()[2:]).rstrip())
    with measure_time() as clock:
        report = db.check()
    page.code("db.check()", clock.seconds)
    found = db.storage()
    verdict = "every byte was checked" if report.ok else "THE CHECK FOUND PROBLEMS"
    names = [branch.name for branch in db.branches()]
    page.say(
        f"{found.snapshots} snapshots on {len(names)} branches in {bytes_text(found.bytes)}; "
        f"branches share what they have in common: a byte is used {found.sharing:.1f} times. And "
        f"{verdict}."
    )
    page.add_facts(
        snapshots=found.snapshots,
        branches=names,
        bytes=found.bytes,
        sharing=found.sharing,
        is_sound=report.ok,
    )
    if stage.picture is not None:
        db.graph().to_html(stage.picture)
        page.say(f"The whole graph, to look around in: {stage.picture}")
        page.add_facts(picture=str(stage.picture))
