"""Pictures made up for tests: small ones by hand, large ones by chance."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.render.arrange import Item, arrange_graph
from livingdb.render.picture import START, Node, SnapshotGraph
from livingdb.render.sync_lanes import DrawnSync

NOON = 1_794_744_000_000_000  # 2026-11-15 12:00 UTC, in microseconds
MINUTE = 60_000_000
ADDED = {"change": "AddColumn", "table": "orders", "name": "vat"}


def row(
    number: int,
    parents: Sequence[int] = (),
    kind: str = "transaction",
    message: str = "",
    author: str = "ada",
) -> SnapshotRow:
    first, *others = parents or (None,)
    address = Address((number * 2_654_435_761 % 2**32).to_bytes(4, "big") * 8)
    time = NOON + number * MINUTE
    return SnapshotRow(
        number, address, first, tuple(others), None, 0, time, kind, author, message or f"s{number}"
    )


def item(
    number: int,
    lane: int,
    parents: Sequence[int] = (),
    kind: str = "transaction",
    message: str = "",
    **given: Any,
) -> Item:
    author = given.pop("author", "ada")
    made = row(number, parents, kind, message, author)
    return Item(made, lane, kind, before=tuple(parents), **given)


def start(number: int, lane: int, heads: tuple[str, ...] = ()) -> Item:
    made = row(number)
    return Item(made, lane, START, "clone", (number,), (), heads, (), {}, made.time)


def small() -> SnapshotGraph:
    """A clone that is merged, a view, a schema change in two-way sync, and a dropped branch."""
    items = [
        item(1, 0, message="create the database"),
        item(2, 0, [1], message="first orders"),
        start(2, 1),
        item(3, 1, [2], message="fix city"),
        item(4, 0, [2], message="more orders"),
        item(5, 0, [4, 3], "merge", "merge dev into main"),
        item(6, 2, [], "derive", "derive totals", sources=(5,)),
        item(7, 0, [5], message="Bodø", author="grace", tags=("v1",)),
        item(8, 2, [6], "propagate", sources=(7,), heads=("totals",)),
        item(9, 3, [7], "schema_change", "AddColumn orders vat", details={"changes": [ADDED]}),
        item(10, 3, [9], message="with vat", heads=("main_v2",)),
        item(11, 0, [7], "propagate", "", sources=(10,), heads=("main",)),
        item(12, 4, [3], message="an attempt"),
    ]
    syncs = [
        DrawnSync(
            "main/totals",
            "derive",
            ("main",),
            "totals",
            "forward",
            "immediate",
            "held",
            "too many rows",
            ("at most 20% changed ⇒ hold",),
        ),
        DrawnSync(
            "main/main_v2",
            "schema_change",
            ("main",),
            "main_v2",
            "both",
            "immediate",
            "active",
            parent=7,
            change=ADDED,
        ),
    ]
    names = ["main", "dev", "totals", "main_v2", "try"]
    return arrange_graph("shop.ldb", items, names, 4, syncs)


def large(count: int, lanes: int, seed: int = 1, messages: Sequence[str] = ()) -> SnapshotGraph:
    """Many snapshots by chance: clones, merges, views that follow, on so many lanes."""
    chance = random.Random(seed)
    heads = {0: 1}
    views: dict[int, int] = {}
    items = [item(1, 0, message="create the database")]
    number = 1
    while number < count:
        number += 1
        told = chance.choice(messages) if messages else f"change {number}"
        free = [lane for lane in range(1, lanes) if lane not in heads and lane not in views]
        lane = chance.choice(list(heads))
        roll = chance.random()
        if free and roll < 0.1:
            if roll < 0.03:
                views[free[0]] = number
                items.append(item(number, free[0], [], "derive", told, sources=(heads[0],)))
            else:
                items.append(start(heads[lane], free[0]))
                items.append(item(number, free[0], [heads[lane]], message=told))
                heads[free[0]] = number
        elif roll < 0.16 and len(heads) > 1:
            other = chance.choice([known for known in heads if known != lane])
            items.append(item(number, lane, [heads[lane], heads[other]], "merge", told))
            heads[lane] = number
        elif roll < 0.4 and views:
            view = chance.choice(list(views))
            source = (heads[0],)
            items.append(item(number, view, [views[view]], "propagate", told, sources=source))
            views[view] = number
        else:
            kind = "schema_change" if roll > 0.97 else "transaction"
            items.append(item(number, lane, [heads[lane]], kind, told))
            heads[lane] = number
    names = ["main", *(f"branch-{lane}" for lane in range(1, lanes))]
    syncs = [
        DrawnSync(
            f"main/{names[v]}", "derive", ("main",), names[v], "forward", "deferred", "active"
        )
        for v in views
    ]
    return arrange_graph("large.ldb", items, names, lanes, syncs, MadeUp())


class MadeUp:
    """Details that every snapshot could have."""

    def tables(self, node: Node) -> list[str]:
        return ["orders"]

    def of(self, nodes: tuple[Node, ...], diffs: int) -> Mapping[str, Any]:
        snapshots = [
            {
                "edge": {"kind": node.kind, "operation": "upsert", "time": node.time},
                "parents": [],
                "tables": {"orders": 0},
                "whole": 1,
                "diff": {"orders": [3, 2, 1]},
            }
            for node in nodes
            if not node.is_start
        ]
        columns = [["id", "bigint"], ["city", "string"]]
        definition = {"columns": columns, "key": ["id"]}
        return {"definitions": [definition], "versions": [[0, 10]], "snapshots": snapshots}


_WORDS = (
    "orders of the day from the northern shops",
    "correct the customer's address",
    "nightly import of the register",
    "sales: Oslo",
    "prices for the winter season",
)


def busy(count: int) -> SnapshotGraph:
    """A shop as it is after so many snapshots: views that follow main, agents' branches, most of
    them merged and dropped, a second schema in step, and releases with tags."""
    live = ["main", "revenue", "stock", "main_v1", "agent/prices", "agent/cleanup", "dev"]
    views = {1: 0, 2: 0}
    dropped = [f"agent/{number}" for number in range(max(1, count // 120))]
    items = [item(1, 0, message="create the database")]
    number, head, kept, old = 1, 1, 0, 0
    branches = {4: 0, 5: 0, 6: 0}
    agent, agent_head, agent_steps = 0, 0, 0

    def add(lane: int, parents: Sequence[int], kind: str = "transaction", **given: Any) -> int:
        nonlocal number
        number += 1
        told = given.pop("message", _WORDS[number % len(_WORDS)])
        items.append(item(number, lane, parents, kind, told, **given))
        return number

    for lane in views:
        views[lane] = add(lane, [], "derive", message=f"derive {live[lane]}", sources=(head,))
    while number < count - 12:
        step = number * 7919 % 1000
        if step < 12 and not agent and len(dropped) > kept:
            items.append(start(head, len(live) + kept))
            agent, agent_head, agent_steps = len(live) + kept, head, 6 + step
        elif agent and step > 500:
            agent_head = add(agent, [agent_head], author="agent")
            agent_steps -= 1
            if not agent_steps:
                told = f"merge {dropped[agent - len(live)]} into main"
                head = add(0, [head, agent_head], "merge", message=told)
                agent, kept = 0, kept + 1
        elif step % 41 == 7 and number > count // 3:
            lane = 4 + step % 3
            if not branches[lane]:
                items.append(start(head, lane))
                branches[lane] = head
            branches[lane] = add(lane, [branches[lane]], author="bob")
        else:
            tags = (f"release-{number}",) if step == 999 else ()
            head = add(0, [head], tags=tags)
            for lane, last in list(views.items()):
                views[lane] = add(lane, [last], "propagate", message="", sources=(head,))
    items.append(start(head, 3))
    old = add(3, [head], "propagate", message="", sources=(head,))
    before = head
    head = add(0, [head], "schema_change", message="RenameColumn orders amount net")
    old = add(3, [old], "propagate", message="", sources=(head,))
    heads = {0: head, 3: old, **views, **{lane: at for lane, at in branches.items() if at}}
    items = [
        _replaced(one, live[one.lane])
        if one.lane in heads and one.row.sequence == heads[one.lane] and one.kind != START
        else one
        for one in items
    ]
    syncs = [
        DrawnSync(
            f"main/{live[lane]}", "derive", ("main",), live[lane], "forward", "immediate", "active"
        )
        for lane in views
    ]
    change = {"change": "RenameColumn", "table": "orders", "old": "amount", "new": "net"}
    syncs.append(
        DrawnSync(
            "main_v1/main",
            "schema_change",
            ("main_v1",),
            "main",
            "both",
            "immediate",
            "active",
            parent=before,
            change=change,
        )
    )
    return arrange_graph("shop.ldb", items, [*live, *dropped], len(live), syncs, MadeUp())


def _replaced(one: Item, head: str) -> Item:
    return replace(one, heads=(head,))
