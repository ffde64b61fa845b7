"""What follows the data: a view at once, one every hour, a model, and a masked copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import livingdb
from livingdb.cli.story import returns
from livingdb.cli.story.demo_context import CITY
from livingdb.cli.story.page import Page, measure_time
from livingdb.evolution import MaskColumn

if TYPE_CHECKING:
    from livingdb.cli.story.demo_context import DemoContext
    from livingdb.database.run import Run

__all__ = ["derive", "mask"]

_DASHBOARD = (
    "SELECT c.city, count(*) AS orders, sum(o.price * o.quantity) AS revenue "
    "FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city"
)
_REPORT = (
    "SELECT c.city, date_trunc('MONTH', o.placed) AS month, "
    "percentile_approx(o.price, 0.5) AS median "
    "FROM orders o JOIN customers c ON o.customer = c.id "
    "GROUP BY c.city, date_trunc('MONTH', o.placed)"
)
_SALE_ROWS = 200


def derive(stage: DemoContext, page: Page) -> None:
    """Three derived objects, a sale, and how each of them learns of it."""
    _create(stage, page)
    before = stage.city_revenue()
    sale = stage.shop.new_orders(CITY, 0, _SALE_ROWS)
    with measure_time() as clock:
        stage.main.insert("orders", sale, author="new application", message=f"sales: {CITY}")
    after = stage.city_revenue()
    page.code(f'main.insert("orders", {_SALE_ROWS} sales in {CITY})', clock.seconds)
    has_spark = stage.no_java is None
    names = ("revenue", "report", "returns") if has_spark else ("revenue", "returns")
    lags = {name: int(stage.db.sync(name).lag or 0) for name in names}
    behind = f"model is {lags['returns']} snapshot behind until somebody propagates:"
    if has_spark:
        behind = (
            f"report is {lags['report']} snapshot behind until its hour is over, the model until "
            "somebody propagates:"
        )
    page.say(
        f"The dashboard moved in the same transaction: {CITY} from {before:,} to {after:,}. The "
        f"{behind}"
    )
    runs = _propagate(stage)
    page.code('db.propagate(); db.refresh("report")' if has_spark else "db.propagate()")
    page.rows(
        ("derived object", "how", "on", "rows", "seconds"),
        [(run.name, run.strategy, run.engine, run.rows, f"{run.seconds:.2f}") for run in runs],
    )
    _versions(stage, page)
    page.add_facts(
        city=CITY,
        revenue_before=before,
        revenue_after=after,
        sale_seconds=clock.seconds,
        lags=lags,
        runs=[
            {"name": run.name, "strategy": run.strategy, "engine": run.engine, "rows": run.rows}
            for run in runs
        ],
    )


def _propagate(stage: DemoContext) -> list[Run]:
    if stage.no_java is not None:
        return stage.db.propagate()
    with stage.spark("propagating"):
        return [*stage.db.propagate(), stage.db.refresh("report")]


def _create(stage: DemoContext, page: Page) -> None:
    limit = livingdb.condition.max_changed_share(0.2, table="orders", of="source", action="hold")
    with measure_time() as clock:
        stage.main.derive("revenue", sql=_DASHBOARD, when="immediate", conditions=[limit])
    stage.db.tag("dashboard_v1", "revenue")
    page.code(
        'main.derive("revenue", sql="SELECT city, … GROUP BY city", when="immediate",\n'
        '    conditions=[max_changed_share(0.2, table="orders", of="source", action="hold")])',
        clock.seconds,
    )
    if stage.no_java is None:
        with stage.spark("a report through Spark"), measure_time() as clock:
            stage.main.derive("report", sql=_REPORT, when="every 1 hour")
        page.code(
            'main.derive("report", sql="… percentile_approx …", when="every 1 hour")', clock.seconds
        )
    else:
        page.say("An hourly report with percentile_approx, Spark's own function, needs Java.")
    function = f"{returns.__name__}:train"
    with measure_time() as clock:
        stage.main.derive("returns", model=function, tables=["orders"])
    page.code(f'main.derive("returns", model="{function}")', clock.seconds)


def _versions(stage: DemoContext, page: Page) -> None:
    """The model's versions, and what the newest one says."""
    old, new = stage.db.at("returns~1"), stage.db.at("returns")
    artefact = new.artifact()
    assert isinstance(artefact, bytes)
    chance = returns.chance_of_return(artefact, 900.0, 5)
    told = [
        (ref, f"{made.metrics['orders']:,}", f"{made.metrics['auc']:.5f}", made.sources["main"][:8])
        for ref, made in (("returns~1", old), ("returns", new))
    ]
    page.rows(("model", "orders", "AUC", "trained on"), told)
    page.say(
        f"Five pieces at 900 come back with {chance:.0%}, says the newest; the one before is still "
        "there with what it was trained on."
    )
    page.add_facts(
        model_versions=[{**made.metrics, "source": made.sources["main"]} for made in (old, new)]
    )


def mask(stage: DemoContext, page: Page) -> None:
    """A branch that follows main, without e-mail addresses."""
    main = stage.main
    with measure_time() as clock:
        analyst = main.clone(
            "analyst",
            transform=[MaskColumn("customers", "email", key="a secret")],
            sync="forward",
        )
    page.code(
        'main.clone("analyst", transform=[MaskColumn("customers", "email", key="…")],\n'
        '           sync="forward")',
        clock.seconds,
    )
    main.insert(
        "customers",
        [{"id": 9_000_002, "given": "Per", "family": "Lie", "city": CITY, "email": "per@lie.no"}],
        author="new application",
        message="a new customer",
    )
    query = "SELECT id, given, email FROM customers WHERE id IN (0, 9000001, 9000002) ORDER BY id"
    clear, hidden = (list(branch.sql(query)) for branch in (main, analyst))
    page.rows(
        ("id", "given", "email on main", "email on analyst"),
        [
            (str(one["id"]), one["given"], one["email"], two["email"])
            for one, two in zip(clear, hidden, strict=True)
        ],
    )
    page.say(
        "It has masked rows of its own and none of main's history; who joined a moment ago is "
        "there. And nobody can write back:"
    )
    try:
        analyst.sql("UPDATE customers SET email = ''")
    except livingdb.ReadOnlyBranch as refused:
        page.code("analyst.sql(\"UPDATE customers SET email = ''\")")
        page.say(f"ReadOnlyBranch: {refused}.")
        page.add_facts(refused=str(refused))
    page.add_facts(clone_seconds=clock.seconds, main=clear, analyst=hidden)
