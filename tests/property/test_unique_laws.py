"""The law of unique constraints, against a dict: what is refused, and what two schemas show."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import livingdb
from livingdb import Branch, Layout
from livingdb.errors import DuplicateKey, DuplicateValue
from livingdb.evolution import AddUnique, DropUnique

VALUES = [None, "a", "b", "c", "d", "e"]
Rows = dict[int, tuple[str | None, int | None]]


def breaks(rows: Rows) -> bool:
    """Whether two rows have one value, and no null in it."""
    given = [row for row in rows.values() if None not in row]
    return len(given) != len(set(given))


def shown(rows: Rows) -> Rows:
    """The rows without those that one with a smaller key has the value of."""
    seen: set[object] = set()
    found: Rows = {}
    for key, row in sorted(rows.items()):
        if None in row or row not in seen:
            found[key] = row
            seen.add(row)
    return found


def held(branch: Branch) -> Rows:
    return {r["id"]: (r["a"], r["b"]) for r in branch.table("t").to_arrow().to_pylist()}


def drawn(random: Random, rows: Rows) -> tuple[str, Rows]:
    """A write of some rows, and what they become."""
    verb = random.choice(("upsert", "upsert", "update", "delete"))
    keys = random.sample(range(12), random.randint(1, 3))
    if verb != "upsert":
        keys = [key for key in keys if key in rows]
    given = {key: (random.choice(VALUES), random.choice((None, 1, 2))) for key in keys}
    return verb, given


def write(branch: Branch, verb: str, given: Rows) -> None:
    if verb == "delete":
        branch.delete("t", list(given))
    elif given:
        rows = [{"id": key, "a": a, "b": b} for key, (a, b) in given.items()]
        getattr(branch, verb)("t", rows)


def after(rows: Rows, verb: str, given: Rows) -> Rows:
    if verb == "delete":
        return {key: row for key, row in rows.items() if key not in given}
    return {**rows, **given}


def run_plain(path: Path, seed: int, steps: int) -> None:
    random, rows = Random(seed), Rows()
    with livingdb.create(path) as db:
        main = db.branch("main")
        columns = {"id": "int", "a": "string", "b": "int"}
        layout = Layout(fold=random.choice(("always", "never", "auto")))
        main.create_table("t", columns, "id", unique=[("a", "b")], layout=layout)
        for _ in range(steps):
            verb, given = drawn(random, rows)
            wanted = after(rows, verb, given)
            if breaks(wanted):
                with pytest.raises(DuplicateValue):
                    write(main, verb, given)
            else:
                write(main, verb, given)
                rows = wanted
            assert held(main) == rows
        assert db.check(deep=True).ok


def run_quarantine(path: Path, seed: int, steps: int) -> None:
    """The loose side takes everything; the strict one is what the law says, whoever wrote."""
    random, rows = Random(seed), Rows()
    with livingdb.create(path) as db:
        main = db.branch("main")
        main.create_table("t", {"id": "int", "a": "string", "b": "int"}, "id")
        if random.random() < 0.5:
            change = AddUnique("t", ["a", "b"], on_violation="quarantine")
            main.evolve(change, keep="other", sync="both")
            loose, strict = db.branch("other"), main
        else:
            main.evolve(AddUnique("t", ["a", "b"]))
            drop = DropUnique("t", ["a", "b"], on_violation="quarantine")
            main.evolve(drop, keep="other", sync="both")
            loose, strict = main, db.branch("other")
        for _ in range(steps):
            side = random.choice((loose, loose, strict))
            verb, given = drawn(random, held(side))
            wanted = after(rows, verb, given)
            try:
                write(side, verb, given)
            except DuplicateKey:
                assert side is strict, "the loose side takes everything"
                is_hidden = any(key in rows and key not in shown(rows) for key in given)
                assert is_hidden or shown(wanted) != after(shown(rows), verb, given)
            else:
                rows = wanted
            assert held(loose) == rows
            assert held(strict) == shown(rows)
        assert db.check(deep=True).ok


@pytest.mark.parametrize("seed", range(2))
def test_no_two_rows_have_one_value(seed: int, tmp_path: Path) -> None:
    run_plain(tmp_path / "t.ldb", seed, 15)


@pytest.mark.parametrize("seed", range(2))
def test_the_strict_side_shows_the_smallest_keys(seed: int, tmp_path: Path) -> None:
    run_quarantine(tmp_path / "t.ldb", seed, 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_no_two_rows_have_one_value_ever(seed: int, tmp_path: Path) -> None:
    run_plain(tmp_path / "t.ldb", seed, 80)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_the_strict_side_always_shows_the_smallest_keys(seed: int, tmp_path: Path) -> None:
    run_quarantine(tmp_path / "t.ldb", seed, 60)
