"""What conditions say of a change, the strongest of it, and rows that are set aside for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tests.unit.guard.conditions.crossings import crossing, tables_at

import livingdb
from livingdb import condition as c
from livingdb.catalog.syncs import SyncRow
from livingdb.derivation.hidden_tables import ASIDE, WHOLE
from livingdb.errors import IllegalSync, InvalidData
from livingdb.guard.conditions.condition import STRENGTH
from livingdb.guard.conditions.pending_change import PendingChange, VersionPair
from livingdb.guard.judge import (
    ConditionBroken,
    Judgement,
    check_guard,
    conditions_of,
    guard_of,
    judge_change,
)
from livingdb.guard.quarantine import quarantine_rows
from livingdb.tables.index import Version

ACTIONS = {
    "warn": c.in_range("n", 0, 4, action="warn"),
    "quarantine": c.in_range("n", 0, 5, action="quarantine"),
    "hold": c.in_range("n", 0, 6, action="hold"),
    "detach": c.in_range("n", 0, 7, action="detach"),
    "fail": c.in_range("n", 0, 8, action="fail"),
}
"""The same kind of condition with every action; a row with n = 9 breaks all of them."""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    """A table of ten rows, in which one came to have n = 9, and then n = 5."""
    path: Path = tmp_path_factory.mktemp("judge") / "db"
    with livingdb.create(path, author="ann", engine="embedded") as database:
        main = database.branch("main")
        main.create_table("t", {"id": "bigint", "n": "bigint"}, key="id")
        main.insert("t", {"id": range(10), "n": [1] * 10})
        database.tag("whole", "main")
        main.upsert("t", {"id": [3, 4, 99], "n": [9, 6, 1]})
        database.tag("broken", "main")
        main.upsert("t", {"id": [3, 4], "n": [5, 5]})
        database.tag("mended", "main")
        main.delete("t", [3])
        database.tag("gone", "main")
        yield database


def change(db: livingdb.Database, before: str | None, after: str, *given: Any) -> PendingChange:
    """What a sync with such conditions is about to bring."""
    found = crossing(db, before, after)
    found.sync = replace(found.sync, guard=guard_of(list(given), None))
    return found


def judged(db: livingdb.Database, before: str | None, after: str, *given: Any) -> Judgement:
    found = judge_change(change(db, before, after, *given))
    assert found is not None
    return found


# --- actions -------------------------------------------------------------------------------------


def test_a_sync_without_conditions_is_not_judged(db: livingdb.Database) -> None:
    assert judge_change(change(db, "whole", "broken")) is None


def test_what_holds_asks_for_nothing(db: livingdb.Database) -> None:
    found = judged(db, "broken", "mended", *list(ACTIONS.values())[1:])
    assert found.action is None
    assert not found.is_blocking
    assert found.broken == []
    assert found.warning_actions() == []
    assert found.rows_to_quarantine() == {}
    found.refuse()
    assert set(found.measured) == {one.text for one in list(ACTIONS.values())[1:]}


@pytest.mark.parametrize("pair", list(combinations(STRENGTH, 2)))
def test_the_strongest_action_counts_whatever_comes_first(
    db: livingdb.Database, pair: tuple[str, str]
) -> None:
    weak, strong = (ACTIONS[name] for name in pair)
    for given in ((weak, strong), (strong, weak)):
        found = judged(db, "whole", "broken", *given)
        assert len(found.broken) == 2
        assert found.action == pair[1]
        assert found.is_blocking == (pair[1] in ("hold", "detach", "fail"))
        assert strong.text in found.reason
        assert weak.text not in found.reason, "only of what stops it"


def test_only_failing_refuses_and_says_which_rule(db: livingdb.Database) -> None:
    for name, one in ACTIONS.items():
        found = judged(db, "whole", "broken", one)
        if name == "fail":
            with pytest.raises(ConditionBroken, match="nothing was changed"):
                found.refuse()
        else:
            found.refuse()


def test_what_was_approved_is_held_no_more(db: livingdb.Database) -> None:
    found = judged(db, "whole", "broken", ACTIONS["hold"], ACTIONS["warn"])
    assert found.action == "hold"
    approved = replace(found, approved_by=["bo"])
    assert approved.action == "warn"
    assert approved.details()["approved_by"] == ["bo"]
    worse = judged(db, "whole", "broken", ACTIONS["hold"], ACTIONS["detach"])
    assert replace(worse, approved_by=["bo"]).action == "detach", "that nobody can approve"


def test_without_stops_the_mild_ones_are_left(db: livingdb.Database) -> None:
    found = judged(db, "whole", "broken", *ACTIONS.values()).without_stops()
    assert [one.action for one, _ in found.broken] == ["warn", "quarantine"]
    assert found.action == "quarantine"


def test_a_condition_that_cannot_be_judged_does_not_hold(db: livingdb.Database) -> None:
    found = judged(db, "whole", "broken", c.in_range("nothing", 0, 1, action="hold"))
    assert found.action == "hold"
    assert "cannot be judged" in found.reason
    assert "nothing" in found.reason


def test_rows_that_nobody_can_judge_are_held(db: livingdb.Database) -> None:
    lost = c.in_range("nothing", 0, 1, action="quarantine")
    found = judged(db, "whole", "broken", lost, ACTIONS["quarantine"])
    assert (found.action, found.is_blocking) == ("hold", True)
    assert found.reason.startswith(lost.text)
    assert ACTIONS["quarantine"].text not in found.reason, "that stops nothing"
    assert len(found.warning_actions()) == 1, "of the one that could be judged"
    passed = replace(found, approved_by=["bo"])
    assert passed.action == "quarantine"
    mild = found.without_stops()
    assert [one.action for one, _ in mild.broken] == ["warn", "quarantine"]
    assert not mild.is_blocking


def test_a_view_whose_quarantine_cannot_be_judged_waits(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as db:
        db._graph.on_alert = None
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "n": "bigint"}, key="id")
        main.insert("t", {"id": [1], "n": [1]})
        orphans = c.no_orphans("n", "limits.id", action="quarantine")
        main.create_table("limits", {"id": "bigint"}, key="id")
        main.insert("limits", {"id": [1]})
        main.derive("view", "SELECT id, n FROM t", when="immediate", conditions=[orphans])
        main.evolve(livingdb.evolution.DropTable("limits"))
        main.insert("t", {"id": [2], "n": [7]})
        sync = db.sync("view")
        assert sync.state == "held"
        assert "cannot be judged" in sync.reason
        assert db.branch("view").table("view").to_arrow().column("id").to_pylist() == [1]
        assert [alert.event for alert in db.alerts(sync=sync.name)] == ["held"]
        assert sync.approve(by="bo")
        assert db.branch("view").table("view").to_arrow().column("id").to_pylist() == [1, 2]
        main.insert("t", {"id": [3], "n": [7]})
        assert db.sync("view").state == "held", "an approval is for what was there"


def test_what_is_new_is_not_judged_by_conditions_on_change(db: livingdb.Database) -> None:
    share = c.max_changed_share(0.01, action="hold")
    assert judged(db, "whole", "broken", share).action == "hold"
    assert judged(db, None, "broken", share).action is None
    assert judged(db, None, "broken", share, ACTIONS["detach"]).action == "detach"


# --- guards as plain values ----------------------------------------------------------------------


def test_conditions_come_back_from_a_guard(db: livingdb.Database) -> None:
    given = [ACTIONS["warn"], ACTIONS["hold"] | ACTIONS["hold"], c.row_count(1)]
    guard = guard_of(given, None)
    sync = SyncRow(
        "s1", "s", "derive", ("1",), "2", "forward", "immediate", "active", "", 0, {}, guard
    )
    assert list(conditions_of(sync)) == given
    assert conditions_of(sync) is conditions_of(sync), "read once"
    assert guard_of([], None) == guard_of(None, None) == {}
    assert guard_of(ACTIONS["warn"], None) == guard_of([ACTIONS["warn"]], None)


@pytest.mark.parametrize("wrong", [3, [3], [ACTIONS["warn"], object()]])
def test_what_is_no_condition_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidData, match="conditions= takes conditions"):
        guard_of(wrong, None)


@pytest.mark.parametrize(
    ("action", "direction", "when", "what", "words"),
    [
        ("fail", "forward", "deferred", "sql", "aborts the transaction"),
        ("hold", "both", "immediate", "schema_change", "a two-way sync can"),
        ("quarantine", "both", "immediate", "schema_change", "a two-way sync can"),
        ("quarantine", "forward", "deferred", "model", "a model has no rows"),
    ],
)
def test_actions_that_a_sync_cannot_take(
    action: str, direction: str, when: str, what: str, words: str
) -> None:
    guard = guard_of([ACTIONS[action]], None)
    with pytest.raises(IllegalSync, match=words):
        check_guard(guard, direction, when, what)
    check_guard(guard, "forward", "immediate", "sql")


# --- rows set aside ------------------------------------------------------------------------------

BROKEN = ACTIONS["quarantine"]
STRICT = c.in_range("n", 0, 8, action="quarantine")


class Target:
    """The tables of a target, as one change after another reaches it."""

    def __init__(self, db: livingdb.Database, *given: Any) -> None:
        self.graph, self.db, self.given = db._graph, db, given
        self.held: dict[str, Version] = {}
        self.before: str | None = None
        self.made: list[Version] = []
        self.stack = ExitStack()

    def tables(self, ref: str) -> dict[str, Version]:
        return tables_at(self.db, self.graph.resolve(ref).snapshot)

    def bring(self, ref: str) -> dict[str, Version | None]:
        """What there was at a ref, judged as this target's next version."""
        pending = change(self.db, self.before, ref, *self.given)
        made = self.tables(ref)
        old = self.held.get("t")
        pending.targets = {"t": VersionPair(old, made["t"])}
        judgement = judge_change(pending)
        return self.put(ref, made, judgement)

    def put(
        self, ref: str, made: Mapping[str, Version | None], judgement: Judgement | None
    ) -> dict[str, Version | None]:
        # Open for as long as the test reads what was made.
        staging = self.stack.enter_context(self.graph.stage())
        found = quarantine_rows(self.graph.versions, self.held, made, judgement, staging)
        self.made += [version for version in found.values() if version is not None]
        self.held = {
            name: version for name, version in {**self.held, **found}.items() if version is not None
        }
        self.before = ref
        return found

    def rows(self, name: str) -> list[dict[str, Any]]:
        found = self.graph.versions.rows(self.held[name]).to_arrow().to_pylist()
        return sorted(found, key=lambda row: row["id"])

    def close(self) -> None:
        stored = {
            row.address
            for row in self.graph.catalog.versions.get_many(
                [version.address for version in self.made]
            )
        }
        self.graph.index.forget({one.address for one in self.made} - stored)
        self.stack.close()


@pytest.fixture
def target(db: livingdb.Database) -> Iterator[Target]:
    made = Target(db, BROKEN, STRICT)
    yield made
    made.close()


def test_rows_that_break_nothing_need_no_other_tables(target: Target) -> None:
    found = target.bring("whole")
    assert found == target.tables("whole")


def test_rows_that_break_a_condition_are_in_the_whole_and_aside_and_not_shown(
    target: Target,
) -> None:
    target.bring("whole")
    target.bring("broken")
    aside = target.rows(ASIDE + "t")
    both = {f"{BROKEN.text}; {STRICT.text}", f"{STRICT.text}; {BROKEN.text}"}
    assert [(row["id"], row["n"]) for row in aside] == [(3, 9), (4, 6)]
    assert aside[0]["_condition"] in both, "each row once, with all that it breaks"
    assert aside[1]["_condition"] == BROKEN.text
    assert target.held[WHOLE + "t"] == target.tables("broken")["t"]
    shown = [row["id"] for row in target.rows("t")]
    assert shown == [0, 1, 2, 5, 6, 7, 8, 9, 99]


@pytest.mark.parametrize(("then", "shown"), [("mended", 11), ("gone", 10)])
def test_rows_that_are_mended_or_gone_are_aside_no_more(
    target: Target, then: str, shown: int
) -> None:
    for ref in ("whole", "broken", then):
        target.bring(ref)
    assert target.rows(ASIDE + "t") == []
    assert len(target.rows("t")) == shown
    assert target.held["t"] == target.held[WHOLE + "t"] == target.tables(then)["t"]


def test_a_table_that_goes_takes_what_is_aside_along(target: Target) -> None:
    for ref in ("whole", "broken"):
        target.bring(ref)
    found = target.put("gone", {"t": None}, None)
    assert found == {"t": None, WHOLE + "t": None, ASIDE + "t": None}
    assert target.held == {}


def test_a_change_that_is_not_judged_keeps_aside_what_it_does_not_touch(target: Target) -> None:
    for ref in ("whole", "broken"):
        target.bring(ref)
    versions, db = target.graph.versions, target.db
    later = db.branch("main").clone("later")
    later.reset(db.at("broken"))
    later.upsert("t", {"id": [4, 5], "n": [7, 7]})
    target.put("later", target.tables("later"), None)
    assert [row["id"] for row in target.rows(ASIDE + "t")] == [3]
    assert [row["id"] for row in target.rows("t")] == [0, 1, 2, 4, 5, 6, 7, 8, 9, 99]
    assert versions.count(target.held[WHOLE + "t"]) == 11


def test_a_number_too_large_for_the_column_it_refers_to_is_an_orphan(tmp_path: Path) -> None:
    orphans = c.no_orphans("customer", "customers.id", action="quarantine")
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as db:
        db._graph.on_alert = None
        main = db.branch("main")
        main.create_table("customers", {"id": "int"}, key="id")
        main.create_table("orders", {"id": "bigint", "customer": "bigint"}, key="id")
        main.insert("customers", {"id": [1]})
        main.insert("orders", {"id": [1], "customer": [1]})
        query = "SELECT id, customer FROM orders"
        main.derive("view", query, when="immediate", conditions=[orphans])
        main.insert("orders", {"id": [2, 3], "customer": [1, 2**40]})
        assert db.branch("view").table("view").to_arrow().column("id").to_pylist() == [1, 2]
        assert db.sync("view").quarantined().column("id").to_pylist() == [3]
