"""Whether a schema change is made before rows are changed or after, a branch is the same.

And so is what is merged, picked, reverted, reset, applied, or written meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.composition.model import State
from tests.merging.merge_cases import BASE, CASES, EDITS, Edits, edited, later_edits
from tests.merging.merge_lab import create_base, described, lookups_of, make_edits, shown_state
from tests.merging.merge_oracle import made_side, merge_sides
from tests.property.trying import tries
from tests.thinned import thinned

import livingdb
from livingdb.errors import LivingDBError, MergeConflict, RuleViolation, TransactionConflict

Clone = Callable[[str], livingdb.Branch]
NAMES = list(CASES)
ROWS = EDITS["ours"]
WANTED = {name: change.get(edited(BASE, ROWS), "o0") for name, change in CASES.items()}
"""Each case on the changed rows."""
LATER = {
    name: edited(CASES[name].get(BASE, "o0"), later)
    for name in CASES
    if (later := later_edits(name, ROWS, "o0")) is not None
}
"""The changes of rows on each case, after which they can be said still."""
EITHER = {name for name, state in LATER.items() if described(state) == described(WANTED[name])}
"""Cases that give the same before and after; one that computes from rows may not."""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    with create_base(tmp_path_factory.mktemp("orders") / "orders.ldb", BASE) as database:
        yield database


@pytest.fixture
def fresh(db: livingdb.Database) -> Iterator[Clone]:
    """A branch of the base, by name; it goes at the end of the test."""
    made: list[str] = []

    def clone(name: str) -> livingdb.Branch:
        made.append(name)
        return db.branch("main").clone(name)

    yield clone
    for name in made:
        db.drop_branch(name)


def before(db: livingdb.Database, name: str) -> str:
    """The branch on which rows were changed, then the schema; it is made once."""
    title = f"before/{NAMES.index(name)}"
    if title not in {branch.name for branch in db.branches()}:
        branch = db.branch("main").clone(title)
        make_edits(branch, ROWS)
        branch.evolve(CASES[name].build())
    return title


def after(db: livingdb.Database, name: str) -> str:
    """The branch on which the schema was changed, then rows; it is made once."""
    title = f"after/{NAMES.index(name)}"
    if title not in {branch.name for branch in db.branches()}:
        branch = db.branch("main").clone(title)
        branch.evolve(CASES[name].build())
        later = later_edits(name, ROWS, "o0")
        assert later is not None
        make_edits(branch, later)
    return title


def shows(db: livingdb.Database, ref: str, wanted: State) -> bool:
    assert shown_state(db, ref, lookups_of(wanted)) == described(wanted)
    return True


@pytest.mark.parametrize("name", thinned(CASES))
def test_rows_before_and_after_the_change(db: livingdb.Database, name: str) -> None:
    assert shows(db, before(db, name), WANTED[name])
    if name in LATER:
        assert shows(db, after(db, name), LATER[name])


def test_most_cases_give_the_same_either_way() -> None:
    assert LATER.keys() - EITHER == {"add t.e from a", "add t.e from b"}
    assert len(EITHER) > len(CASES) / 2


@pytest.mark.parametrize("name", thinned(CASES, first=1))
def test_rows_written_meanwhile(db: livingdb.Database, fresh: Clone, name: str) -> None:
    branch = fresh("open")

    def write() -> livingdb.Snapshot:
        with branch.transaction("edits") as tx:
            for verb, table, rows in ROWS:
                getattr(tx, verb)(table, rows)
            db.branch("open").evolve(CASES[name].build())
        assert tx.snapshot is not None
        return tx.snapshot

    if raised(TransactionConflict, write) is not None:
        assert name not in LATER
        assert shows(db, "open", CASES[name].get(BASE, "o0"))
    else:
        assert shows(db, "open", carried(name))


def carried(name: str) -> State:
    """Rows written to the old schema, in the new one: those that come are made by the change.

    Of those that were there, what the change computed stays.
    """
    if name not in LATER:
        return WANTED[name]
    made = {}
    for title, table in WANTED[name].items():
        stays = LATER[name][title].by_key()
        was = CASES[name].get(BASE, "o0")[title].by_key()
        rows = {**table.by_key(), **{key: row for key, row in stays.items() if key in was}}
        made[title] = table.with_rows(rows.values())
    return made


@pytest.mark.parametrize("name", thinned(CASES))
def test_merged_into_where_it_began(db: livingdb.Database, fresh: Clone, name: str) -> None:
    for fast_forward in (True, False):
        target = fresh(f"target{fast_forward}")
        db.merge(before(db, name), into=target.name, fast_forward=fast_forward)
        assert shows(db, target.name, WANTED[name])


@pytest.mark.parametrize("name", thinned(CASES, first=1))
def test_picked_one_by_one(db: livingdb.Database, fresh: Clone, name: str) -> None:
    for number, order in enumerate((before, after) if name in EITHER else (before,)):
        side, target = order(db, name), fresh(f"target{number}")
        target.cherry_pick(f"{side}~1")
        target.cherry_pick(side)
        assert shows(db, target.name, WANTED[name])


@pytest.mark.parametrize("name", thinned(CASES))
def test_applied_as_a_diff(db: livingdb.Database, fresh: Clone, name: str) -> None:
    side = before(db, name)
    found = db.diff("main", side)
    assert [type(change).__name__ for change in found.schema] == [kind(name)]
    assert not found.notes
    fresh("target")
    db.apply(found, "target")
    assert shows(db, "target", WANTED[name])
    assert db.apply(found, "target").id == db.branch("target").head.id
    left = db.diff("target", side)
    assert not left.schema
    assert all(len(part) == 0 for part in left.values())


def kind(name: str) -> str:
    return type(CASES[name].build()).__name__


@pytest.mark.parametrize("name", thinned(CASES, first=1))
def test_taken_back(db: livingdb.Database, fresh: Clone, name: str) -> None:
    made, branch, other = before(db, name), fresh("side"), fresh("other")
    branch.reset(f"{made}~1")
    assert shows(db, "side", edited(BASE, ROWS))
    branch.reset(made)
    if raised(RuleViolation, lambda: branch.revert("side")) is None:
        assert shows(db, "side", edited(BASE, ROWS))
    other.reset(made)
    if kind(name) == "MaskColumn":  # what it hides would be there again
        assert raised(RuleViolation, lambda: other.revert("other~1")) is not None
    elif raised(MergeConflict, lambda: other.revert("other~1")) is not None:
        assert name not in LATER
    elif name in EITHER:
        assert shows(db, "other", CASES[name].get(BASE, "o0"))


def raised(
    kind: type[LivingDBError], call: Callable[[], livingdb.Snapshot]
) -> LivingDBError | None:
    """The error of that kind that a call ends with; None if it ends well."""
    try:
        call()
    except kind as error:
        return error
    return None


# --- two sides ----------------------------------------------------------------------------------

names = st.sampled_from(list(CASES))
WHO = ("ours", "theirs")


@cache
def later(name: str, who: str) -> Edits | None:
    uid = f"{who[0]}0"
    found = later_edits(name, EDITS[who], uid)
    if found is None:
        return None
    states = (
        edited(CASES[name].get(BASE, uid), found),
        CASES[name].get(edited(BASE, EDITS[who]), uid),
    )
    return found if described(states[0]) == described(states[1]) else None


def make_side(db: livingdb.Database, branch: str, name: str, who: str, is_after: bool) -> None:
    side = db.branch("main").clone(branch)
    after = later(name, who) if is_after else None
    if after is None:
        make_edits(side, EDITS[who])
    side.evolve(CASES[name].build())
    if after is not None:
        make_edits(side, after)


def check_orders(
    db: livingdb.Database, ours: str, theirs: str, is_after: tuple[bool, bool]
) -> None:
    sides = [
        made_side(BASE, [CASES[name]], who[0], edited(BASE, EDITS[who]))
        for name, who in zip((ours, theirs), WHO, strict=True)
    ]
    wanted = merge_sides(BASE, *sides)
    for name, who, after in zip((ours, theirs), WHO, is_after, strict=True):
        make_side(db, who, name, who, after)
    error = raised(MergeConflict, lambda: db.merge("theirs", into="ours"))
    try:
        assert wanted.is_conflict == (error is not None), (wanted, error)
        if error is None:
            assert shows(db, "ours", wanted.state)
    finally:
        for who in WHO:
            db.drop_branch(who)


@settings(max_examples=tries(60))
@given(names, names, st.booleans(), st.booleans())
def test_merged_in_any_order(
    db: livingdb.Database, ours: str, theirs: str, mine: bool, yours: bool
) -> None:
    check_orders(db, ours, theirs, (mine, yours))


@pytest.mark.slow
@settings(max_examples=tries(1000), derandomize=False)
@given(names, names, st.booleans(), st.booleans())
def test_merged_in_any_order_searched(
    db: livingdb.Database, ours: str, theirs: str, mine: bool, yours: bool
) -> None:
    check_orders(db, ours, theirs, (mine, yours))
