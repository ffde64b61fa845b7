"""What is interrupted: operations on a small database, each with the state it starts from."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import livingdb
from livingdb import Database, Layout
from livingdb.evolution import AddColumn
from livingdb.graph.storage.drain_journal import drain_journal
from livingdb.maintenance.layouts import lay_out_due
from livingdb.maintenance.tuning.actions.make_index import MakeIndex
from livingdb.maintenance.tuning.actions.relayout import Relayout
from livingdb.maintenance.tuning.advisors.candidate import Candidate
from livingdb.maintenance.tuning.gain import Gain, Price
from livingdb.maintenance.tuning.records import new_record, save_records
from livingdb.tables.layout import TableLayout

__all__ = ["SCENARIOS", "Contents", "Scenario", "contents", "noise"]

Done = Callable[[], None]
Contents = dict[str, dict[str, pa.Table]]

ORDERS = {"id": "bigint", "city": "string", "amount": "double"}


@dataclass(frozen=True)
class Scenario:
    """`start` makes a database; `run` is interrupted, and calls its second argument when done."""

    start: Callable[[Path], None]
    run: Callable[[Path, Done], None]
    changes_rows: bool = True
    forgets: bool = False
    """Whether the rows of snapshots that are no heads may go."""
    check: Callable[[Database], object] = lambda db: None
    """What else has to hold, whenever it was interrupted."""


def contents(db: Database) -> Contents:
    """Every row of every table of every branch, and what users may do."""
    found = {
        branch.name: {name: branch.table(name).to_arrow() for name in branch.tables()}
        for branch in db.branches()
    }
    if db.people.are_any:
        told = [
            {
                "user": user.name,
                "grants": str(user.grants),
                "objects": str(sorted(user.objects)),
                "tokens": str([token.is_valid for token in db.people.tokens(user.name)]),
            }
            for user in db.people.list()
        ]
        found["users"] = {"grants": pa.Table.from_pylist(told)}
    return found


def orders(first: int, count: int, amount: float = 1.0) -> list[dict[str, Any]]:
    return [
        {"id": number, "city": f"city {number % 7}", "amount": amount + number}
        for number in range(first, first + count)
    ]


def noise(first: int, count: int, size_bytes: int, seed: int = 0) -> pa.Table:
    """Rows that do not compress."""
    source = random.Random(f"{seed} {first}")
    data = [source.randbytes(size_bytes) for _ in range(count)]
    return pa.table({"id": pa.array(range(first, first + count)), "data": pa.array(data)})


def shop(path: Path, layout: Layout | None = None) -> None:
    """Two tables and a few commits."""
    with livingdb.create(path) as db:
        main = db.branch("main")
        main.create_table("orders", ORDERS, key="id", layout=layout)
        main.create_table("blobs", {"id": "bigint", "data": "binary"}, key="id", layout=layout)
        main.insert("orders", orders(0, 200))
        main.insert("blobs", noise(0, 50, 100))
        main.upsert("orders", orders(150, 100, 5.0))
        main.delete("orders", [3, 5, 8])


def team(path: Path) -> None:
    """A shop with a user."""
    shop(path)
    with livingdb.open(path) as db:
        db.people.add("ann", role="writer", branches="main")
        db.people.issue_token("ann")


def team_with_view(path: Path) -> None:
    """As `team`, with a derived object that the user may not read yet."""
    team(path)
    with livingdb.open(path) as db:
        totals = "SELECT city, count(*) AS n FROM orders GROUP BY city"
        db.branch("main").derive("totals", totals, key="city", engine="embedded")


def team_that_reads_it(path: Path) -> None:
    """As `team_with_view`, and now the user may."""
    team_with_view(path)
    with livingdb.open(path) as db:
        db.people.grant_object("ann", "totals")


def come_in(db: Database) -> None:
    """A new token, and the note of its first use."""
    assert db.people.authenticate(db.people.issue_token("ann")).name == "ann"


def revoke(db: Database) -> None:
    """A token that counts no more."""
    (token,) = db.people.tokens("ann")
    db.people.revoke(token.id)


def check_trail(db: Database) -> None:
    """What people may do is what the audit says was done: both, or neither."""
    trail = [entry["action"] for entry in db.people.audit().to_pylist()]
    users = db.people.list()
    assert len(users) == trail.count("add user") - trail.count("remove user")
    if users:
        (ann,) = users
        tokens = db.people.tokens("ann")
        grants = 1 + trail.count("grant") - trail.count("withdraw")
        assert len(ann.grants) == grants
        assert len(ann.objects) == trail.count("grant object") - trail.count("withdraw object")
        assert len(tokens) == trail.count("issue token")
        assert sum(not token.is_valid for token in tokens) == trail.count("revoke token")


def cared_for(path: Path) -> None:
    """Trees to be laid out anew, and who may do so; who may write files, too."""
    packed(path)
    with livingdb.open(path) as db:
        db.people.add("mia", role="maintainer")
        db.people.add("olga", role="owner")


def care(db: Database) -> None:
    """What a user does that moves no branch."""
    main = db.branch("main")
    with db.acting_as("mia"):
        main.relayout("orders", Layout(target_rows=16))
        main.migrate()
        main.create_index("orders", ["city"])
        db.budget(bytes=1 << 40)


def check_care(db: Database) -> None:
    """What was done of it is in the audit, and nothing else is."""
    table = db.branch("main").table("orders")
    is_laid_out = table.layout.target_rows == 16
    done = {
        "lay out": is_laid_out,
        "migrate": is_laid_out and not lay_out_due(db._graph),
        "make index": bool(table.indexes()),
        "set budget": db.budget().bytes is not None,
    }
    told = db.people.audit().to_pylist()
    noted = [row["action"] for row in reversed(told) if row["person"] == "mia"]
    assert noted == [action for action, is_done in done.items() if is_done]


def exported(path: Path) -> Path:
    """Where files of a database are written to."""
    return path.with_name(f"{path.name} exported")


def export(path: Path, done: Done) -> None:
    with livingdb.open(path) as db, db.acting_as("olga"):
        db.branch("main").export(exported(path))
        done()


def check_export(db: Database) -> None:
    """No file is there without the audit saying that somebody began to write it."""
    folder = exported(Path(db.name))
    files = {file.name for file in folder.iterdir()} if folder.exists() else set()
    told = db.people.audit().to_pylist()
    noted = [row["outcome"] for row in reversed(told) if row["person"] == "olga"]
    assert noted in ([], ["begun"], ["begun", "done"])
    assert noted or not files
    assert "done" not in noted or "tables.json" in files
    shutil.rmtree(folder, ignore_errors=True)


def act(db: Database) -> None:
    """A commit of a user, and what the audit says of it."""
    with db.acting_as("ann"):
        small_commit(db)


def diverged(path: Path) -> None:
    shop(path)
    with livingdb.open(path) as db:
        dev = db.branch("main").clone("dev")
        dev.upsert("orders", orders(300, 50))
        dev.delete("orders", [10, 11])
        db.branch("main").upsert("orders", orders(20, 10, 9.0))


def asked(path: Path) -> None:
    """A merge that somebody asked for, and another approved; a branch follows its target."""
    diverged(path)
    with livingdb.open(path) as db:
        change = AddColumn("orders", "vat", "double", default=0.0)
        db.branch("main").clone("copy", transform=[change], sync="forward", when="immediate")
        db.set_merge_rule("main", approvals=1)
        db.request_merge("dev", into="main", title="asked", author="ann").approve(by="bob")


def merge_request(db: Database) -> None:
    db.merge_requests()[0].merge(by="bob")


def check_request(db: Database) -> None:
    """It is open and nothing is merged, or it is merged, and so is written down."""
    (request,) = db.merge_requests()
    head = db.branch("main").head
    is_merged = head.edge.kind == "merge"
    assert request.state == ("merged" if is_merged else "open")
    assert request.snapshot == (head if is_merged else None)
    assert [note.kind for note in request.notes] == ["approve", "merge"][: 1 + is_merged]
    assert (db.branch("main").table("orders").get(349) is not None) == is_merged
    assert ("request" in head.edge.details) == is_merged


def packed(path: Path) -> None:
    """Packs, trees that can be thinned, and a journal."""
    shop(path, Layout(fold="always", target_rows=32))
    with livingdb.open(path) as db:
        main = db.branch("main")
        for number in range(4):
            main.upsert("blobs", noise(50 * number, 100, 3000, seed=number))
        drain_journal(db._graph.store)
        for number in range(4):
            main.upsert("orders", orders(40 * number, 5, 70.0 + number))


def neglected(path: Path) -> None:
    """As `packed`, with a table that is read through a lens and a tail that nobody folded."""
    packed(path)
    with livingdb.open(path) as db:
        db.branch("main").evolve(AddColumn("orders", "vat", "double", default=0.0))
        db._graph.upkeep.fold_and_drain = lambda made: None  # type: ignore[method-assign]
        db.branch("main").upsert("blobs", noise(0, 100, 3000, seed=9))


def heavy(path: Path) -> None:
    """A tree too large for the journal, and a tail that is almost due to be folded."""
    layout = Layout(fold=0.25)
    with livingdb.create(path) as db:
        main = db.branch("main")
        main.create_table("blobs", {"id": "bigint", "data": "binary"}, key="id", layout=layout)
        main.insert("blobs", noise(0, 1000, 120))
        main.upsert("blobs", noise(0, 240, 120, seed=1))


def opened(action: Callable[[Database], object]) -> Callable[[Path, Done], None]:
    def run(path: Path, done: Done) -> None:
        with livingdb.open(path) as db:
            action(db)
            done()

    return run


def small_commit(db: Database) -> None:
    with db.branch("main").transaction("small") as tx:
        tx.upsert("orders", orders(195, 10, 3.0))
        tx.delete("orders", [1, 2])
        tx.insert("blobs", noise(1000, 3, 100))


def large_commit(db: Database) -> None:
    with db.branch("main").transaction("large") as tx:
        tx.insert("blobs", noise(1000, 90, 64 << 10))
        tx.upsert("orders", orders(0, 10, 3.0))


def tag_and_commit(db: Database) -> None:
    """Two transactions of the catalog: the second one is appended to its log."""
    db.tag("before", "main")
    db.branch("main").insert("blobs", noise(1000, 6, 64 << 10))


def folding_commit(db: Database) -> None:
    db.branch("main").upsert("blobs", noise(900, 60, 120, seed=2))


def lay_out_anew(db: Database) -> None:
    """Trees of other layouts in the place of those that are there."""
    main = db.branch("main")
    main.relayout("orders", Layout(target_rows=16, groups=[["city"]]))
    main.relayout("blobs", Layout(target_rows=8, fold="always"))
    main.migrate()


def index(db: Database) -> None:
    """An index, and a tree of another version that gets one, too."""
    main = db.branch("main")
    main.create_index("orders", ["city"])
    main.relayout("orders", Layout(target_rows=16))
    main.migrate()
    main.drop_index("orders_city_idx")


def advised(path: Path) -> None:
    """An advice to give the orders another layout."""
    shop(path)
    with livingdb.open(path) as db:
        definition = db.branch("main").table("orders").definition
        assert definition.id is not None
        layout = TableLayout.of(Layout(target_rows=16, groups=[["city"]]), definition.schema)
        action = Relayout(definition.id, "orders", "small leaves", None, layout)
        advice = Candidate(action, "many gets", Gain(1.0, 0.5), Price(), "nobody")
        save_records(db._graph, [new_record(advice, None, True, 1)])


def advised_index(path: Path) -> None:
    """An advice to find orders by their cities."""
    shop(path)
    with livingdb.open(path) as db:
        definition = db.branch("main").table("orders").definition
        assert definition.id is not None
        city = definition.schema.column("city").id
        action = MakeIndex(definition.id, "tuned_orders_city", (city,), "orders by city")
        advice = Candidate(action, "many look for it", Gain(1.0, 0.5), Price(), "nobody")
        save_records(db._graph, [new_record(advice, None, True, 1)])


def applied_index(path: Path) -> None:
    """It was followed."""
    advised_index(path)
    with livingdb.open(path) as db:
        db.advice(1).apply()


def left(path: Path) -> None:
    """A pack, a journal, and a branch that was dropped."""
    shop(path)
    with livingdb.open(path) as db:
        drain_journal(db._graph.store)
        db.branch("main").clone("gone").insert("blobs", noise(5000, 20, 100))
        db.drop_branch("gone")


def collect(db: Database) -> None:
    """Keep the heads, and what they need."""
    db.collect_garbage(livingdb.Retention(snapshots=1, dropped_days=0, grace_seconds=0))


def create(path: Path, done: Done) -> None:
    with livingdb.create(path):
        done()


SCENARIOS = {
    "small commit": Scenario(shop, opened(small_commit)),
    "large commit": Scenario(shop, opened(large_commit)),
    "tag and commit": Scenario(shop, opened(tag_and_commit)),
    "fold": Scenario(heavy, opened(folding_commit)),
    "drain": Scenario(
        packed, opened(lambda db: drain_journal(db._graph.store)), changes_rows=False
    ),
    "compact": Scenario(packed, opened(lambda db: db.compact()), changes_rows=False),
    "collect": Scenario(left, opened(collect), changes_rows=False, forgets=True),
    "merge": Scenario(diverged, opened(lambda db: db.merge("dev", into="main"))),
    "merge request": Scenario(asked, opened(merge_request), check=check_request),
    "clone": Scenario(shop, opened(lambda db: db.branch("main").clone("dev"))),
    "rename": Scenario(diverged, opened(lambda db: db.rename_branch("dev", "trial"))),
    "act": Scenario(team, opened(act)),
    "withdraw": Scenario(team, opened(lambda db: db.people.withdraw("ann")), check=check_trail),
    "add user": Scenario(
        shop, opened(lambda db: db.people.add("ann", role="writer")), check=check_trail
    ),
    "remove user": Scenario(team, opened(lambda db: db.people.remove("ann")), check=check_trail),
    "grant": Scenario(
        team, opened(lambda db: db.people.grant("ann", "reader", "dev/*")), check=check_trail
    ),
    "issue token": Scenario(
        team, opened(lambda db: db.people.issue_token("ann")), check=check_trail
    ),
    "revoke token": Scenario(team, opened(revoke), check=check_trail),
    "come in": Scenario(team, opened(come_in), check=check_trail),
    "grant object": Scenario(
        team_with_view,
        opened(lambda db: db.people.grant_object("ann", "totals")),
        check=check_trail,
    ),
    "withdraw object": Scenario(
        team_that_reads_it,
        opened(lambda db: db.people.withdraw_object("ann", "totals")),
        check=check_trail,
    ),
    "upkeep": Scenario(
        neglected, opened(lambda db: db.upkeep(seconds=60, propagate=False)), changes_rows=False
    ),
    "index": Scenario(packed, opened(index), changes_rows=False),
    "relayout": Scenario(packed, opened(lay_out_anew), changes_rows=False),
    "tune": Scenario(advised, opened(lambda db: db.advice(1).apply()), changes_rows=False),
    "tune an index": Scenario(
        advised_index, opened(lambda db: db.advice(1).apply()), changes_rows=False
    ),
    "undo tuning": Scenario(
        applied_index, opened(lambda db: db.advice(1).undo()), changes_rows=False
    ),
    "care": Scenario(cared_for, opened(care), changes_rows=False, check=check_care),
    "export": Scenario(cared_for, export, changes_rows=False, check=check_export),
    "create": Scenario(lambda path: None, create),
}
