"""Freeze a database: `python -m tests.frozen.make NAME`, once for each format.

What is frozen is never made again.  `python -m tests.frozen.make NAME --texts` says the words of
a description anew (see `describe.TEXTS`), if nothing but words has changed, and leaves out messages
that are not told any more.  Java and Spark are needed to make one, and not to read it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.frozen.archive import DATA, expected, first_difference, pack, store, stored, unpack
from tests.frozen.describe import TEXTS, describe
from tests.frozen.keeping import make_keeping
from tests.frozen.people import make_people
from tests.frozen.schemas import (
    make_chain,
    make_masks,
    make_merges,
    make_schemas,
    make_steps,
)
from tests.frozen.shop import (
    make_branches,
    make_events,
    make_long_line,
    make_names,
    make_tables,
)
from tests.frozen.views import make_trouble, make_views

import livingdb

__all__ = ["TRUST", "freeze", "make"]

TRUST = ("tests.frozen.*",)
"""The functions that frozen databases may run."""


def make(path: Path) -> None:
    """A database with everything in it, closed."""
    with livingdb.create(path, author="ann", engine="embedded", trust=TRUST) as db:
        make_tables(db.branch("main"))
        make_events(db.branch("main"))
        make_branches(db)
        make_schemas(db)
        make_chain(db)
        make_masks(db)
        make_merges(db)
        db.compact()  # packs with dictionaries and patches, besides those that are new
        make_views(db)
        make_trouble(db)
        make_names(db)
        make_long_line(db)
        make_keeping(db)
        make_people(db)
        make_steps(db)


def freeze(name: str) -> None:
    """Make a database, keep it as it is, and write down what readers see in it."""
    if any(DATA.glob(f"{name}.*")):
        raise SystemExit(f"{name} is frozen already, and is never made again: choose another name")
    with TemporaryDirectory() as folder:
        make(Path(folder) / name)
        pack(name, Path(folder) / name)
    first = _seen(name)
    difference = first_difference(first, _seen(name))
    if difference is not None:
        raise SystemExit(f"what readers see is not the same each time:\n{difference}")
    store(name, first)


def restate(name: str) -> None:
    """Write down the words for people anew; everything else has to be what it was."""
    old, new, kept = expected(name), _seen(name), stored(name)
    for section in (section for section in old if section != TEXTS):
        silenced = _silenced(old[section], new[section])
        difference = first_difference(silenced, new[section], [section])
        if difference is not None:
            raise SystemExit(f"more than words would change:\n{difference}")
        kept[section] = _silenced(kept[section], new[section])
    store(name, {**kept, TEXTS: new[TEXTS]})


def _silenced(old: Any, new: Any) -> Any:
    """What was seen, without the texts of which nothing is told now."""
    if isinstance(old, dict) and isinstance(new, dict):
        told = {name: value for name, value in old.items() if name != "message" or name in new}
        return {name: _silenced(value, new.get(name, value)) for name, value in told.items()}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [_silenced(*pair) for pair in zip(old, new, strict=True)]
    return new if isinstance(old, str) and new == "" else old


def _seen(name: str) -> dict[str, Any]:
    """What a reader sees in a frozen database now, who opens it twice."""
    with TemporaryDirectory() as folder:
        path = unpack(name, Path(folder))
        found = []
        for _ in range(2):
            with livingdb.open(path, author="reader", engine="embedded") as db:
                found.append(json.loads(json.dumps(describe(db))))
    difference = first_difference(*found)
    if difference is not None:
        raise SystemExit(f"reading changed what readers see:\n{difference}")
    return found[0]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.frozen.make", description=__doc__)
    parser.add_argument("name", help="by the version of the catalog's schema, like catalog-4")
    parser.add_argument("--texts", action="store_true", help="say the words for people anew")
    given = parser.parse_args()
    (restate if given.texts else freeze)(given.name)
    sys.stdout.write(f"{given.name}: {len(stored(given.name)['snapshots'])} snapshots\n")


if __name__ == "__main__":
    main()
