"""Writes docs/design/merging-schemas.md: what comes of each two schema changes in a merge.

python scripts/write_merging_schemas.py

The oracle of the tests says it (`tests/merging`), for changes of one small database.
"""

from __future__ import annotations

import sys
from functools import cache
from itertools import combinations_with_replacement, product
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.merging.merge_cases import BASE, CASES, kind_of  # noqa: E402
from tests.merging.merge_oracle import MergeVerdict, made_side, merge_sides  # noqa: E402

PAGE = ROOT / "docs" / "design" / "merging-schemas.md"
HEAD = """# Which schema changes merge

<!-- Written by scripts/write_merging_schemas.py; change that, or the oracle in tests/merging. -->

Two branches each make a schema change, and one is merged into the other; [how](evolution.md) is
said elsewhere. This page is what comes of it, for every two kinds of change, as a model on plain
values says that knows nothing of the code. The tests merge every one of these pairs, either way,
and compare.

- **merges**: the branch has both changes;
- **is one**: both sides did the same, and it is done once;
- **conflict**: the two contradict each other, and `on_conflict` says whose counts.

The changes are made on a table `t` (`id`, `a`, `b`, `s`, `r`), and on `u`, `w`, `v` and `k` beside
it. Two changes of different tables always merge, and so do those of a table that are not listed
here. The order of columns is never a conflict: it is that of the branch that is merged into, with
the changes of the other made on it.

| change | and | merges | is one | conflict |
|---|---|---|---|---|
"""
TAIL = """
## What a rename is in the way of

A rename conflicts with nothing but another name for the same element, with one exception:
`Normalize`, `Decompose` and their like *into a table that is there* find the columns of that table
by the names that the moved ones have. Where the other side renamed one of those, the change would
need to say which column goes to which, and has no words for it; the merge is a conflict that says
so.

## Under which identity

What **is one** goes on under the ids that the branch has which is merged into. Those of the other
side stay known as what they became: where an ancestor has the one change and a side an equal one,
they are taken for one again (`evolution/equal_changes.py`), so that what is done by either id, in
a later merge from either side, is done to the one column. So both directions give one schema but
for the ids of what unified. Where one merge follows the other, the second is a fast-forward and
brings the ids along; where two merges cross, each branch has its own until the next merge, which
leaves one.

The smaller of the two ids would be the same at once, and is not what is taken. The id of a column
follows from the change that made it, so ours' own records say it: the definition of the table,
the change that a revert, a pick, a replay or a later merge makes again, the lens of every sync
that leads from the branch or to it, the queries that are bound to the column. Had the merge to
give a column of ours the other id, it would be a change of schema of a table that nobody changed:
every two-way sync of the branch would have to refuse it by rule 4, or get a hidden branch that
does nothing but match two ids; the table would begin a line of versions anew, without the deltas,
runs and indexes of before; and the branch would have changes in its history that do not lead to
its schema. As it is, ours keeps its schema as it stands.
"""
REASONS = {
    "taken": "a name is taken",
    "two schemas": "they say different things",
    "names that differ in case only": "names differ in case only",
    "used": "something reads the column",
    "fixed": "the column is read-only",
    "every column once": "a column has no place",
    "simple tables only": "a condition or computed column is in the way",
    "unique values": "a unique constraint is in the way",
    "keys of other types": "the key is of another type",
    "a key of another type": "the column is a key by now",
    "referenced": "a foreign key refers to it",
    "no such default": "the default is of another type",
    "a number": "an expression is of another type",
    "other columns": "the tables have other columns",
    "other keys": "the key is of another type",
    "broken": "rows do not satisfy it",
    "not unique": "rows do not satisfy it",
    "rows of two tables may have one value": "rows of both tables may have one value",
    "unique already": "the column is unique already",
    "rows that nobody can name, or taken": "a name is taken",
    "no key": "the column cannot be a key",
    "masked in two ways": "they mask it in two ways",
    "the rows depend on the order": "the rows depend on the order",
}


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The page as it should be."""
    kinds = sorted({kind_of(name) for name in CASES})
    lines = []
    for one, other in combinations_with_replacement(kinds, 2):
        line = _line(one, other)
        if line is not None:
            lines.append(line)
    return HEAD + "\n".join(lines) + "\n" + TAIL


def _line(one: str, other: str) -> str | None:
    """A line about two kinds of change; None if they always merge."""
    found: dict[str, list[str]] = {"merges": [], "unifies": [], "conflict": []}
    reasons: dict[str, list[str]] = {}
    for mine, yours in product(_names(one), _names(other)):
        if one == other and mine > yours:
            continue
        said, pair = _verdict(mine, yours), f"`{mine}` and `{yours}`"
        if said.is_conflict:
            reasons.setdefault(_reason(said), []).append(pair)
        else:
            found[said.kind].append(pair)
    found["conflict"] = [f"{why}: {pairs[0]}" for why, pairs in sorted(reasons.items())]
    if not found["unifies"] and not reasons:
        return None
    cells = [found["merges"][:1], found["unifies"][:1], found["conflict"]]
    return f"| {one} | {other} | " + " | ".join("<br>".join(cell) for cell in cells) + " |"


@cache
def _names(kind: str) -> list[str]:
    """The changes of a kind."""
    return [name for name in CASES if kind_of(name) == kind]


def _verdict(ours: str, theirs: str) -> MergeVerdict:
    sides = [made_side(BASE, [CASES[name]], uid) for name, uid in ((ours, "o"), (theirs, "t"))]
    return merge_sides(BASE, *sides)


def _reason(said: MergeVerdict) -> str:
    if said.reason.endswith("is gone"):
        return "what it changes is gone"
    return REASONS[said.reason]


if __name__ == "__main__":
    main()
