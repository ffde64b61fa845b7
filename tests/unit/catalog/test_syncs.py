"""Syncs: which branches a change goes from and to, whose a branch is, and what users call them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from livingdb.catalog.catalog import Catalog
from livingdb.catalog.ids import new_id
from livingdb.catalog.sync_index import SyncIndex
from livingdb.catalog.syncs import (
    ACTIVE,
    DETACHED,
    HELD,
    ActiveSyncs,
    SyncRow,
    sync_chains,
    with_end_names,
)
from livingdb.errors import AlreadyExists


def row(
    number: int,
    sources: tuple[str, ...],
    target: str,
    direction: str = "forward",
    state: str = ACTIVE,
    kind: str = "derive",
) -> SyncRow:
    name = f"{sources}/{target}"
    ends = (sources, target, direction)
    return SyncRow(f"s{number}", name, kind, *ends, "immediate", state, "", 0, number=number)


# --- directions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("direction", "forward", "reverse", "origins", "written"),
    [
        ("forward", True, False, ("1", "2"), ("3",)),
        ("reverse", False, True, ("3",), ("1", "2")),
        ("both", True, True, ("1", "2"), ()),
    ],
)
def test_a_direction_says_who_writes_and_who_follows(
    direction: str,
    forward: bool,
    reverse: bool,
    origins: tuple[str, ...],
    written: tuple[str, ...],
) -> None:
    sync = row(1, ("1", "2"), "3", direction)
    assert (sync.carries_forward, sync.carries_reverse) == (forward, reverse)
    assert sync.origins == origins
    assert sync.written_branches == written
    assert sync.far_ends("1") == sync.far_ends("2") == (("3",) if forward else ())
    assert sync.far_ends("3") == (("1", "2") if reverse else ())
    assert sync.far_ends("4") == (), "a branch it has nothing to do with"


def test_only_what_is_active_carries_changes() -> None:
    states = {
        state: row(1, ("1",), "2", state=state).is_active for state in (ACTIVE, HELD, DETACHED)
    }
    assert states == {ACTIVE: True, HELD: False, DETACHED: False}


# --- chains --------------------------------------------------------------------------------------


def test_syncs_of_branches_that_users_know_are_chains_of_one() -> None:
    rows = [row(1, ("1",), "2"), row(2, ("2",), "3"), row(3, ("1", "2"), "4")]
    assert sync_chains(rows, hidden=()) == [(one,) for one in rows]
    assert sync_chains([], hidden=("7",)) == []


def test_syncs_that_meet_in_hidden_branches_are_one_chain_from_source_to_target() -> None:
    last, first, middle = row(1, ("11",), "2"), row(2, ("1",), "10"), row(3, ("10",), "11")
    assert sync_chains([last, first, middle], hidden={"10", "11"}) == [(first, middle, last)]


def test_chains_come_in_the_order_of_their_first_rows() -> None:
    alone = row(1, ("5",), "6")
    head, tail = row(2, ("1",), "10"), row(3, ("10",), "2")
    other_head, other_tail = row(4, ("1",), "12"), row(5, ("12",), "3")
    found = sync_chains([tail, other_tail, alone, other_head, head], hidden={"10", "12"})
    assert found == [(alone,), (other_head, other_tail), (head, tail)]


def test_every_row_is_in_one_chain_although_its_first_part_is_gone() -> None:
    orphan, whole = row(1, ("10",), "2"), row(2, ("1",), "3")
    assert sync_chains([orphan, whole], hidden={"10"}) == [(orphan,), (whole,)]


def test_a_sync_without_sources_is_a_chain() -> None:
    model = row(1, (), "2")
    assert sync_chains([model], hidden={"2"}) == [(model,)]


# --- as users know them --------------------------------------------------------------------------

NAMES = {"1": "main", "2": "v2", "3": "totals", "10": "_stage"}


def test_the_rows_of_a_chain_go_by_the_names_of_its_ends() -> None:
    head, tail = row(2, ("1",), "10"), row(5, ("10",), "2")
    view = row(3, ("1",), "3")
    found = with_end_names([tail, view, head], NAMES, hidden={"10"})
    assert [one.id for one in found] == ["s2", "s3", "s5"], "by number"
    assert [one.ends for one in found] == [("main", "v2"), ("main", "totals"), ("main", "v2")]
    assert [one.name for one in found] == ["main/v2", view.name, "main/v2"]


def test_an_end_that_is_gone_and_one_without_sources() -> None:
    gone, model = row(1, ("77",), "2"), row(2, (), "3")
    found = with_end_names([gone, model], NAMES, hidden=())
    assert [one.ends for one in found] == [("?", "v2"), ("totals", "totals")]


def writers(syncs: ActiveSyncs) -> dict[str, str]:
    known = {branch: syncs.writer(branch) for branch in "1234567"}
    return {branch: sync.id for branch, sync in known.items() if sync is not None}


def test_what_waits_carries_nothing_and_keeps_its_target() -> None:
    held, active = row(1, ("1",), "2", state=HELD), row(2, ("2",), "3")
    found = with_end_names([held, active], NAMES, hidden=())
    assert [one.id for one in found] == ["s2"]
    assert [one.id for one in found.inactive] == ["s1"]
    assert writers(found) == {"2": "s1", "3": "s2"}


def test_writers_are_the_branches_that_only_a_sync_writes() -> None:
    syncs = [
        row(1, ("1",), "2", "forward"),
        row(2, ("3",), "4", "reverse"),
        row(3, ("5",), "6", "both"),
        row(4, ("7",), "2", "forward"),
    ]
    found = with_end_names(syncs, {}, hidden=())
    assert writers(found) == {"2": "s1", "3": "s2"}, (
        "the first if there are two, and none of a two-way sync"
    )


def test_schema_syncs_are_told_from_views() -> None:
    syncs = [row(1, ("1",), "2", kind="schema_change"), row(2, ("1",), "3")]
    found = with_end_names(syncs, NAMES, hidden=())
    assert [one.id for one in found.schema_syncs] == ["s1"]


def test_the_syncs_of_a_branch_are_those_it_is_in_and_stay_known_when_others_are_replaced() -> None:
    chain = [row(n, (f"{n}",), f"{n + 1}", "both", kind="schema_change") for n in (1, 2, 3)]
    held, view = row(4, ("2",), "5", state=HELD), row(5, ("2",), "6")
    found = with_end_names([*chain, held, view], {}, hidden=())
    mine = [one.id for one in found.of_branch("2")]
    assert mine == ["s1", "s2", "s5", "s4"], "those that carry nothing last"
    assert [one.id for one in found.schema_syncs_of("2")] == ["s1", "s2"]
    from_here = [(one.id, far) for one, far in found.schema_syncs_from("2")]
    assert from_here == [("s1", "1"), ("s2", "3")]
    assert (found.schema_group("4"), found.of_branch("7")) == ({"1", "2", "3", "4"}, ())
    moved = [row(2, ("7",), "3", "both", kind="schema_change"), row(4, ("2",), "5")]
    then = found.replaced({"s2", "s4", "s5"}, with_end_names(moved, {}, hidden=()))
    same = with_end_names([chain[0], chain[2], *moved], {}, hidden=())
    assert (then, then.inactive) == (same, same.inactive)
    assert all(list(then.of_branch(b)) == list(same.of_branch(b)) for b in "1234567")


# --- in the catalog ------------------------------------------------------------------------------


def add(catalog: Catalog, name: str, spec: dict[str, object] | None = None) -> SyncRow:
    ends = (("1", "2"), "3", "forward")
    sync = SyncRow(new_id(), name, "derive", *ends, "immediate", ACTIVE, "", 7, spec or {})
    with catalog.write() as connection:
        catalog.syncs.add(connection, sync)
    return next(one for one in catalog.syncs.all() if one.name == name)


def test_a_sync_is_read_back_as_it_was_written(catalog: Catalog) -> None:
    spec = {"query": "SELECT 'ö' AS \"x\"", "tables": {"t": [1, None]}}
    made = add(catalog, "main/v", spec)
    assert made == SyncRow(
        made.id,
        "main/v",
        "derive",
        ("1", "2"),
        "3",
        "forward",
        "immediate",
        ACTIVE,
        "",
        7,
        spec,
        {},
        number=made.number,
    )
    add(catalog, "a/v")
    assert [one.name for one in catalog.syncs.all()] == ["a/v", "main/v"]
    with pytest.raises(AlreadyExists, match="sync 'a/v'"):
        add(catalog, "a/v")


def test_what_a_sync_is_can_change(catalog: Catalog) -> None:
    made, other = add(catalog, "v"), add(catalog, "w")
    with catalog.write() as connection:
        catalog.syncs.set_state(connection, made.id, HELD, "too many rows")
        catalog.syncs.set_spec(connection, made.id, {"query": "SELECT 2"})
        catalog.syncs.set_guard(connection, made.id, {"alerts": [{"sink": "log"}]})
        catalog.syncs.set_ends(connection, made.id, ("9",), "8", "x")
        assert catalog.syncs.state(connection, made.id) == HELD
        assert catalog.syncs.state(connection, new_id()) is None
    stays, now = catalog.syncs.all()
    assert stays == other
    assert (now.state, now.reason, now.spec) == (HELD, "too many rows", {"query": "SELECT 2"})
    assert (now.sources, now.target, now.name) == (("9",), "8", "x")
    assert now.guard == {"alerts": [{"sink": "log"}]}
    with catalog.write() as connection:
        catalog.syncs.drop(connection, now.id)
    assert catalog.syncs.all() == catalog.syncs.by_ids([now.id, other.id]) == [other]
    assert catalog.syncs.by_ids([]) == []


def raise_epoch(catalog: Catalog) -> str:
    with catalog.write() as connection:
        return catalog.raise_epoch(connection)


def test_syncs_are_found_by_their_query(catalog: Catalog) -> None:
    for query in ("SELECT 1", "a%b_c\\d", 'ö "quoted"', "long " * 3_000):
        start = query[:4]
        spec = {"key": None, "query": query}
        made = [add(catalog, f"{start}/{name}", spec) for name in ("c", "b", "a")]
        like = query.replace("%", "x").replace("_", "x")
        add(catalog, f"{start}/other", {"query": like + "x"})
        with catalog.write() as connection:
            catalog.syncs.set_state(connection, made[1].id, DETACHED, "")
        raise_epoch(catalog)
        found = catalog.syncs.with_query(query, 2)
        assert [one.id for one in found] == [made[0].id, made[2].id], "the oldest active ones first"


def test_syncs_are_found_by_their_branches_as_they_are_now(catalog: Catalog) -> None:
    first, second = add(catalog, "b/v"), add(catalog, "a/w")
    raise_epoch(catalog)
    assert catalog.syncs.of_branches(["3", "1", "9"]) == [first, second], "the oldest first"
    assert catalog.syncs.of_branches(["9"]) == []
    with catalog.write() as connection:
        catalog.syncs.set_ends(connection, first.id, ("9",), "8", "x")
        catalog.syncs.drop(connection, second.id)
        catalog.raise_epoch(connection)
    assert [one.id for one in catalog.syncs.of_branches(["9"])] == [first.id]
    assert catalog.syncs.of_branches(["1", "3"]) == []
    assert catalog.syncs.all() == catalog.syncs.of_branches(["8"])


def test_after_commits_of_this_process_only_what_they_changed_is_read(catalog: Catalog) -> None:
    known = [add(catalog, f"{n}/v", {"query": "SELECT 1"}) for n in range(3)]
    raise_epoch(catalog)
    assert catalog.syncs.with_query("SELECT 1", 8) == known
    asked = []
    read = catalog.syncs._queries.run_prepared
    with pytest.MonkeyPatch.context() as noting:
        noting.setattr(
            catalog.syncs._queries,
            "run_prepared",
            lambda statement, values: asked.append(statement) or read(statement, values),
        )
        for number in range(3, 5):
            with catalog.write() as connection:
                made = replace(known[0], id=new_id(), name=f"{number}/v")
                catalog.syncs.add(connection, made)
                epoch = catalog.raise_epoch(connection)
            catalog.syncs.note_changed([made.id], epoch)
        found = [one.name for one in catalog.syncs.with_query("SELECT 1", 8)]
        assert found == ["0/v", "1/v", "2/v", "3/v", "4/v"]
        assert len(asked) == 1, "the epoch: what was added is known"
        with catalog.write() as connection:
            catalog.syncs.set_state(connection, made.id, HELD, "")
            epoch = catalog.raise_epoch(connection)
        catalog.syncs.note_changed([made.id], epoch)
        asked.clear()
        assert [one.state for one in catalog.syncs.of_branches(["1"])] == [ACTIVE] * 4 + [HELD]
        assert len(asked) == 2, "the epoch, and the one that changed"


def test_what_others_changed_between_is_not_overlooked(catalog: Catalog) -> None:
    mine, theirs = add(catalog, "a"), add(catalog, "b")
    raise_epoch(catalog)
    assert catalog.syncs.of_branches(["1"]) == [mine, theirs]
    with catalog.write() as connection:  # somebody else, who tells nobody
        catalog.syncs.set_state(connection, theirs.id, DETACHED, "")
        catalog.raise_epoch(connection)
    with catalog.write() as connection:
        catalog.syncs.set_state(connection, mine.id, HELD, "")
        epoch = catalog.raise_epoch(connection)
    catalog.syncs.note_changed([mine.id], epoch)
    assert [one.state for one in catalog.syncs.of_branches(["1"])] == [HELD, DETACHED]
    with catalog.write() as connection:
        catalog.syncs.set_state(connection, mine.id, ACTIVE, "")
        epoch = catalog.raise_epoch(connection)
    catalog.syncs.note_changed([mine.id], epoch)
    with catalog.write() as connection:  # after it, too
        catalog.syncs.drop(connection, theirs.id)
        catalog.raise_epoch(connection)
    assert [one.state for one in catalog.syncs.of_branches(["1"])] == [ACTIVE]


def test_an_index_holds_nothing_of_syncs_that_are_gone() -> None:
    index, empty = SyncIndex(), vars(SyncIndex())
    spec = {"query": "SELECT 1"}
    rows = [
        SyncRow(f"s{n}", f"s{n}", "derive", ("a", "b"), f"t{n}", "forward", "immediate", ACTIVE,
                "", 0, spec, number=n)
        for n in range(3)
    ]  # fmt: skip
    index.replace((), [(row.id, b"", row) for row in rows])
    index.replace([rows[0].id], [(rows[1].id, b"2", replace(rows[1], target="t9"))])
    assert index.of_branches(["t1"]) == []
    assert [row.id for row in index.of_branches(["a", "t9"])] == ["s1", "s2"]
    assert [row.id for row in index.with_query("SELECT 1", 5)] == ["s1", "s2"]
    index.keep(())
    assert vars(index) == empty
