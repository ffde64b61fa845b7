"""Laws of the states of syncs, whatever happens to them in whatever order.

One source, and for each kind of sync a target that is guarded: at most two rows of it may change
at once.  The machine knows what state each sync is in and what its target has to hold.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine
from tests.property.trying import tries

import livingdb
from livingdb.evolution import AddColumn, MaskColumn, RenameColumn
from livingdb.guard.conditions.kinds.volume import max_changed

KINDS = ("immediate", "deferred", "schema", "chain", "both", "clone")
QUERY = "SELECT id, city, amount FROM orders WHERE amount >= 0"
CITIES = ("Oslo", "Røros", "", None)
MOST = 2


class SyncMachine(RuleBasedStateMachine):
    """A database with one source and guarded targets."""

    kind = ""
    action = ""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="livingdb-states-"))
        self.db = livingdb.create(self.folder / "shop.ldb", author="ann")
        self.main = self.db.branch("main")
        self.state = "active"
        self.seen: dict[int, Any] = {}
        """What the target has."""
        self.written = False
        """Whether somebody wrote to the target while it was detached."""
        self.stops = 0

    @initialize()
    def start(self) -> None:
        main = self.main
        main.create_table("orders", {"id": "bigint", "city": "string", "amount": "int"}, "id")
        main.insert("orders", {"id": [1, 2, 3], "city": ["Oslo", None, ""], "amount": [1, 2, 3]})
        guard = [max_changed(MOST, action=self.action)]
        if self.kind in ("immediate", "deferred"):
            main.derive("t", QUERY, when=self.kind, engine="embedded", conditions=guard)
        elif self.kind == "clone":
            mask = [MaskColumn("orders", "city", "null")]
            main.clone("t", transform=mask, sync="forward", when="deferred", conditions=guard)
        else:
            changes = [AddColumn("orders", "note", "string")]
            if self.kind != "schema":
                changes.append(RenameColumn("orders", "amount", "sum"))
            sync = "both" if self.kind == "both" else "forward"
            main.evolve(changes, to="t", sync=sync, conditions=guard)
        self.seen = self.source()

    def teardown(self) -> None:
        try:
            path = self.db.name
            self.db.close()
            self.db = livingdb.open(path)
            assert self.db.sync("t").state == self.state
            assert self.target() == self.seen
            assert self.db.check().problems == []
        finally:
            self.db.close()
            shutil.rmtree(self.folder)

    # --- what is there -----------------------------------------------------------------------

    def source(self) -> dict[int, Any]:
        rows = self.main.table("orders").to_arrow().to_pylist()
        if self.kind == "clone":
            return {row["id"]: (None, row["amount"]) for row in rows}
        return {row["id"]: (row["city"], row["amount"]) for row in rows}

    @property
    def table(self) -> str:
        return "t" if self.kind in ("immediate", "deferred") else "orders"

    def target(self) -> dict[int, Any]:
        rows = self.db.branch("t").table(self.table).to_arrow().to_pylist()
        name = "sum" if self.kind in ("chain", "both") else "amount"
        return {row["id"]: (row["city"], row[name]) for row in rows}

    def comes(self) -> bool:
        """The sync judges what differs between source and target; whether it passes."""
        now = self.source()
        differs = {k for k in {*now, *self.seen} if now.get(k) != self.seen.get(k)}
        return len(differs) <= MOST

    def judged(self) -> None:
        """What happens when the sync carries what differs."""
        if self.state != "active" or self.source() == self.seen:
            return
        if self.comes():
            self.seen = self.source()
            return
        self.state = "held" if self.action == "hold" else "detached"
        self.stops += 1

    # --- what can be done --------------------------------------------------------------------

    @rule(
        keys=st.sets(st.integers(0, 8), min_size=1, max_size=4),
        city=st.sampled_from(CITIES),
        amount=st.integers(0, 3),
        is_delete=st.booleans(),
    )
    def write(self, keys: set[int], city: str | None, amount: int, is_delete: bool) -> None:
        chosen = sorted(keys)
        before = self.source()
        try:
            if is_delete:
                self.main.delete("orders", chosen)
            else:
                rows = [{"id": key, "city": city, "amount": amount} for key in chosen]
                self.main.upsert("orders", rows)
        except livingdb.RuleViolation:
            assert (self.action, self.state) == ("fail", "active")
            assert self.source() == before
            return
        if self.action == "fail" and self.state == "active":
            assert self.comes()
        if self.kind not in ("deferred", "clone"):
            self.judged()

    @rule()
    def propagate(self) -> None:
        self.db.propagate()
        if self.kind in ("deferred", "clone"):
            self.judged()

    @rule()
    def resume(self) -> None:
        sync = self.db.sync("t")
        if self.state == "active":
            sync.resume()
        elif self.state == "detached" or not self.comes():
            with pytest.raises(livingdb.RuleViolation):
                sync.resume()
        else:
            sync.resume(by="bob")
            self.state, self.seen = "active", self.source()

    @rule()
    def approve(self) -> None:
        sync = self.db.sync("t")
        if self.state != "held":
            with pytest.raises(livingdb.RuleViolation):
                sync.approve(by="bob")
            return
        assert sync.approve(by="bob")
        self.state, self.seen = "active", self.source()
        assert "approved" in [step["state"] for step in sync.trail]

    @rule()
    def detach(self) -> None:
        self.db.sync("t").detach(reason="by hand")
        self.state = "detached"

    @rule(key=st.integers(0, 8))
    def write_target(self, key: int) -> None:
        """Allowed where the sync is detached, and nowhere else, but in a two-way one."""
        target = self.db.branch("t")
        if self.state != "detached":
            if self.kind != "both":
                with pytest.raises(livingdb.ReadOnlyBranch):
                    target.delete(self.table, [key])
            return
        target.delete(self.table, [key], strict=False)
        self.written |= key in self.seen
        self.seen.pop(key, None)

    @rule()
    def reattach(self) -> None:
        sync = self.db.sync("t")
        if self.kind == "both":
            sync.reattach(on_conflict="theirs")
            self.state, self.seen, self.written = "active", self.source(), False
            return
        if self.state == "detached" and self.written:
            try:
                sync.reattach()
            except livingdb.MergeConflict:
                assert self.db.sync("t").state == "detached"
                sync.reattach(on_conflict="ours")
        else:
            sync.reattach()
        was = self.state
        self.state, self.written = "active", False
        if was != "active":
            self.seen = self.source()

    # --- what always holds -------------------------------------------------------------------

    @invariant()
    def is_as_known(self) -> None:
        sync = self.db.sync("t")
        assert sync.state == self.state
        assert self.target() == self.seen
        if self.state != "active":
            assert sync.reason
            assert sync.trail[0]["state"] in (self.state, "approved")

    @invariant()
    def every_stop_is_told(self) -> None:
        told = [a for a in self.db.alerts(state=None) if a.event in ("held", "detached")]
        assert len(told) >= self.stops
        if self.state == "active":
            assert not [a for a in told if a.state == "open"]


def machine(kind: str, action: str) -> type[SyncMachine]:
    """The machine for one kind of sync and one action."""
    return type(f"Machine_{kind}_{action}", (SyncMachine,), {"kind": kind, "action": action})


CASES = [
    *(
        (kind, action)
        for kind in ("immediate", "schema", "chain")
        for action in ("hold", "detach", "fail")
    ),
    *((kind, action) for kind in ("deferred", "clone") for action in ("hold", "detach")),
    *(("both", action) for action in ("detach", "fail")),
]


@pytest.mark.parametrize(("kind", "action"), CASES, ids=["-".join(case) for case in CASES])
def test_states(kind: str, action: str) -> None:
    run_machine(
        machine(kind, action),
        settings=settings(
            max_examples=tries(8),
            stateful_step_count=12,
            deadline=None,
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )
