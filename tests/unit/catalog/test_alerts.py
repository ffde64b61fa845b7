"""Alerts are found by what is asked for, and damaged ones are not passed over."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection

from livingdb.catalog import schema
from livingdb.catalog.alerts import OPEN, RESOLVED, Alerts
from livingdb.catalog.catalog import Catalog
from livingdb.errors import Corruption


def add(catalog: Catalog, connection: Connection, sync: str, severity: str) -> int:
    return catalog.alerts.add(connection, 1, sync, "failed", severity, "words", {})


def test_alerts_are_chosen_by_state_severity_and_sync(catalog: Catalog) -> None:
    with catalog.write() as connection:
        pairs = [("a", "info"), ("a", "error"), ("b", "error")]
        numbers = [add(catalog, connection, *pair) for pair in pairs]
        catalog.alerts.set_state(connection, numbers[1], RESOLVED, {})
    found = catalog.alerts.all
    assert [row.id for row in found()] == numbers[::-1]
    assert [row.id for row in found(state=OPEN)] == [numbers[2], numbers[0]]
    assert [row.id for row in found(sync="a")] == [numbers[1], numbers[0]]
    assert [row.id for row in found(severities=["error", "critical"])] == [numbers[2], numbers[1]]
    assert [row.id for row in found(OPEN, ["error"], "b")] == [numbers[2]]


def test_an_alert_whose_state_is_damaged_is_not_passed_over(catalog: Catalog) -> None:
    with catalog.write() as connection:
        add(catalog, connection, "a", "info")
        connection.execute(schema.alert.update().values(state="opem"))
    with pytest.raises(Corruption, match="'alert'"):
        Alerts(catalog.queries).all(state=OPEN)
