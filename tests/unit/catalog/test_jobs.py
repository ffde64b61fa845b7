"""Jobs are taken by compare-and-swap."""

from __future__ import annotations

from dataclasses import replace

from livingdb.catalog.catalog import Catalog
from livingdb.catalog.jobs import IDLE, RUNNING, JobRow


def swap(catalog: Catalog, seen: JobRow | None, row: JobRow) -> bool:
    with catalog.write() as connection:
        return catalog.jobs.swap(connection, seen, row)


def test_only_one_takes_a_job(catalog: Catalog) -> None:
    mine = JobRow("fold", RUNNING, "me", 1, 2, details={"memory": {"head": 3}})
    assert swap(catalog, None, mine)
    assert not swap(catalog, None, replace(mine, holder="you"))
    assert catalog.jobs.all() == {"fold": mine}
    later = replace(mine, until=9, progress="half")
    assert swap(catalog, mine, later), "who has it says so again"
    assert swap(catalog, mine, replace(later, state=IDLE))
    yours = replace(later, holder="you", began=5)
    assert not swap(catalog, later, yours), "it is not as it was seen"
    assert swap(catalog, replace(later, state=IDLE), yours)
    assert catalog.jobs.all()["fold"].holder == "you"
