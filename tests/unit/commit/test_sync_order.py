"""The order in which syncs carry a change."""

from __future__ import annotations

from itertools import permutations

from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.commit.carrying.sync_order import rank_syncs, upstream_syncs


def sync(number: int, sources: tuple[int, ...], target: int, direction: str = "forward") -> SyncRow:
    kind = "schema_change" if direction != "forward" else "derive"
    read = tuple(str(source) for source in sources)
    return SyncRow(str(number), "", kind, read, str(target), direction, "immediate", ACTIVE, "", 0)


def ids(*numbers: int) -> set[str]:
    return {str(number) for number in numbers}


def test_a_chain_is_carried_from_its_source() -> None:
    chain = [sync(3, (10,), 11), sync(1, (11,), 12), sync(2, (12,), 13)]
    for given in permutations(chain):
        ranks = rank_syncs(given)
        assert ranks["3"] < ranks["1"] < ranks["2"]
        assert upstream_syncs(given) == {"3": set(), "1": ids(3), "2": ids(3, 1)}


def test_what_reads_one_branch_of_a_two_way_group_waits_for_all_of_it() -> None:
    group = [sync(5, (10,), 11, "both"), sync(6, (11,), 12, "both")]
    view = sync(1, (12,), 20)
    for given in permutations([*group, view]):
        ranks = rank_syncs(given)
        assert max(ranks["5"], ranks["6"]) < ranks["1"]
        assert upstream_syncs(given)["1"] == ids(5, 6)


def test_a_reverse_sync_writes_its_sources() -> None:
    reverse = sync(4, (10,), 11, "reverse")
    reads_written, writes_read = sync(1, (10,), 20), sync(9, (30,), 11)
    for given in permutations([reverse, reads_written, writes_read]):
        ranks = rank_syncs(given)
        assert ranks["9"] < ranks["4"] < ranks["1"]


def test_several_ways_lead_to_one_view() -> None:
    syncs = [sync(1, (10,), 11), sync(2, (11,), 12), sync(3, (10, 12), 13), sync(4, (13, 11), 14)]
    for given in permutations(syncs):
        ranks = rank_syncs(given)
        assert ranks["1"] < ranks["2"] < ranks["3"] < ranks["4"]
    assert upstream_syncs(syncs)["4"] == ids(1, 2, 3)


def test_a_chain_may_be_long() -> None:
    many = [sync(number, (number,), number + 1) for number in range(3_000, 0, -1)]
    ranks = rank_syncs(many)
    assert [ranks[str(number)] for number in range(1, 3_001)] == sorted(ranks.values())


def test_no_syncs() -> None:
    assert rank_syncs([]) == {}
    assert upstream_syncs([]) == {}
