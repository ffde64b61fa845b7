"""What goes wrong: two who change the same row, and one who changes all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import livingdb
from livingdb.cli.story.demo_context import CITY
from livingdb.cli.story.page import Page, measure_time

if TYPE_CHECKING:
    from livingdb.cli.story.demo_context import DemoContext

__all__ = ["mistake", "what_if"]

_DEAR = 3


def what_if(stage: DemoContext, page: Page) -> None:
    """A discount tried on a branch, while main corrects three of the same orders."""
    db, main = stage.db, stage.main
    with measure_time() as clock:
        trial = main.clone("what_if")
    page.code('main.clone("what_if")', clock.seconds)
    first, last = stage.shop.rows - stage.shop.rows // 100, stage.shop.rows
    discount = f"UPDATE orders SET price = round(price * 0.9, 2) WHERE id >= {first}"
    with measure_time() as clock:
        changed = trial.sql(discount, author="eva", message="what if: 10 % off").changed
    page.code(f'what_if.sql("{discount}")', clock.seconds)
    correction = (
        f"UPDATE orders SET price = price + 1 WHERE id BETWEEN {last - _DEAR} AND {last - 1}"
    )
    main.sql(correction, author="lars", message="corrected prices")
    page.code(f'main.sql("{correction}")')
    try:
        db.merge(trial, into="main")
    except livingdb.MergeConflict as conflict:
        rows = conflict.conflicts["orders"].to_pylist()
        page.code('db.merge("what_if", into="main")')
        page.say(f"MergeConflict: {conflict}.")
        sides = ("_base", "_ours", "_theirs")
        told = [(str(row["id"]), *(row[side]["price"] for side in sides)) for row in rows]
        page.rows(("order", "price before", "ours: main", "theirs: what_if"), told)
        page.add_facts(conflicts=[dict(zip(("id", *sides), row, strict=True)) for row in told])
    policy = {"orders.price": "theirs"}
    with measure_time() as clock:
        db.merge(trial, into="main", on_conflict=policy, message="10 % off", author="eva")
    merge = 'db.merge("what_if", into="main", on_conflict={"orders.price": "theirs"})'
    page.code(merge, clock.seconds)
    parts = stage.main.head.parents
    page.say(
        f"Merged: {changed:,} orders are cheaper, on main and everywhere that follows it. The "
        f"merge has both parents, {parts[0][:8]} and {parts[1][:8]}; the dashboard says "
        f"{stage.city_revenue():,} for {CITY}."
    )
    page.add_facts(discounted=changed, merge_seconds=clock.seconds, revenue=stage.city_revenue())


def mistake(stage: DemoContext, page: Page) -> None:
    """All prices are lost; the dashboard's condition holds it where it was."""
    db, main = stage.db, stage.main
    before = stage.city_revenue()
    with measure_time() as clock:
        done = main.sql("UPDATE orders SET price = 0", author="lars", message="reset prices")
    page.code('main.sql("UPDATE orders SET price = 0")', clock.seconds)
    sync = db.sync("revenue")
    alert = db.alerts(state="open")[0]
    held = stage.city_revenue()
    page.say(
        f"{done.changed:,} orders cost nothing now. The dashboard still says {held:,} for {CITY}: "
        f"its sync is {sync.state}, and an alert is open."
    )
    page.rows(
        ("alert", "severity", "about", "what"),
        [(alert.id, alert.severity, alert.sync, alert.message)],
    )
    page.add_facts(
        changed=done.changed,
        state=sync.state,
        alert={"severity": alert.severity, "sync": alert.sync, "message": alert.message},
        revenue_before=before,
        revenue_held=held,
    )
    alert.acknowledge(by="you", note="looking")
    with measure_time() as clock:
        main.revert("main", message="prices back", author="you")
    page.code('main.revert("main")', clock.seconds)
    with measure_time() as clock:
        sync.resume(by="you")
    page.code('db.sync("revenue").resume()', clock.seconds)
    sync = db.sync("revenue")
    page.say(
        f"The prices are back, the sync is {sync.state}, {int(sync.lag or 0)} snapshots behind; "
        f"the dashboard says {stage.city_revenue():,}, and it never said anything else."
    )
    page.add_facts(
        state_after=sync.state, lag_after=int(sync.lag or 0), revenue_after=stage.city_revenue()
    )
