"""The worked example of InVerDa: three versions of an application, all alive over the same rows.

TasKy has tasks with an author and a priority.  Do! shows the urgent ones and no priority.
TasKy2 keeps the authors in a table of their own.  Whoever writes, all three say so at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

import livingdb
from livingdb.evolution import DropColumn, DropTable, Normalize, RenameColumn, SplitTable

DO = [
    SplitTable("task", {"todo": "prio = 1", "rest": "prio IS NULL OR prio <> 1"}),
    DropTable("rest"),
    DropColumn("todo", "prio", default=1),
]
TASKY2 = [
    Normalize("task", ["author"], "author", reference="author"),
    RenameColumn("author", "author", "name"),
]

Task = tuple[int, str | None, str | None, int | None]
"""A task as TasKy has it: its number, author, what is to be done, and the priority."""

START: list[Task] = [
    (1, "Ann", "Organize party", 3),
    (2, "Ben", "Learn for exam", 2),
    (3, "Ann", "Write paper", 1),
    (4, "Ben", "Clean room", 1),
]


class World:
    """The three applications."""

    def __init__(self, db: livingdb.Database):
        self.db = db
        self.tasky = db.branch("main")
        self.do = db.branch("do")
        self.tasky2 = db.branch("tasky2")

    def shows(self, tasks: Sequence[Task], authors: Sequence[str], todo: object = None) -> None:
        """TasKy has these tasks; the others what they make of them, and TasKy2 these authors."""
        assert rows(self.tasky, "task") == list(tasks)
        urgent = [task[:3] for task in tasks if task[3] == 1]
        assert self.do.tables() == ["todo"]
        assert rows(self.do, "todo") == (urgent if todo is None else todo)
        names = dict(rows(self.tasky2, "author"))
        assert sorted(names.values()) == sorted(authors)
        linked = [
            (number, None if author is None else names[author], text, prio)
            for number, text, prio, author in rows(self.tasky2, "task")
        ]
        assert linked == list(tasks)

    def author(self, name: str) -> int:
        """The number of an author of TasKy2."""
        (found,) = [number for number, held in rows(self.tasky2, "author") if held == name]
        return found


def rows(branch: livingdb.Branch, table: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in branch.table(table).to_arrow().to_pylist()]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with livingdb.create(tmp_path / "tasky.ldb") as db:
        main = db.branch("main")
        columns = {"id": "bigint", "author": "string", "task": "string", "prio": "int"}
        main.create_table("task", columns, key="id")
        main.insert("task", [dict(zip(columns, task, strict=True)) for task in START])
        main.evolve(DO, to="do", sync="both")
        main.evolve(TASKY2, to="tasky2", sync="both")
        yield World(db)
        assert db.check().problems == []


def test_three_versions_of_the_same_rows(world: World) -> None:
    world.shows(START, ["Ann", "Ben"])
    assert world.db.branches() == ["do", "main", "tasky2"]
    assert [sync.explain() for sync in world.db.syncs()] == [
        "main ↔ do: schema_change, immediate, active",
        "main ↔ tasky2: schema_change, immediate, active",
    ]
    assert world.do.table("todo").schema.names == ["id", "author", "task"]
    assert world.tasky2.table("task").schema.names == ["id", "task", "prio", "author"]
    assert world.tasky2.table("author").schema.names == ["id", "name"]
    assert rows(world.do, "todo") == [(3, "Ann", "Write paper"), (4, "Ben", "Clean room")]


# --- one after the other ----------------------------------------------------------------------


def test_a_day_of_writes_on_all_three(world: World) -> None:
    one, two, three, four = START
    five: Task = (5, "Zoë", "Plan trip", 2)
    world.tasky.insert("task", [{"id": 5, "author": "Zoë", "task": "Plan trip", "prio": 2}])
    world.shows([one, two, three, four, five], ["Ann", "Ben", "Zoë"])

    world.do.insert("todo", [{"id": 6, "author": "Ann", "task": "Call mum"}])
    six: Task = (6, "Ann", "Call mum", 1)
    world.shows([one, two, three, four, five, six], ["Ann", "Ben", "Zoë"])

    world.tasky2.sql("UPDATE author SET name = 'Anna' WHERE name = 'Ann'")
    one, three, six = (one[0], "Anna", *one[2:]), (3, "Anna", *three[2:]), (6, "Anna", *six[2:])
    world.shows([one, two, three, four, five, six], ["Anna", "Ben", "Zoë"])

    world.tasky.update("task", {"id": [2, 3], "prio": [1, 3]})
    two, three = (*two[:3], 1), (*three[:3], 3)
    world.shows([one, two, three, four, five, six], ["Anna", "Ben", "Zoë"])
    assert [row[0] for row in rows(world.do, "todo")] == [2, 4, 6]

    world.do.delete("todo", [4])
    world.shows([one, two, three, five, six], ["Anna", "Ben", "Zoë"])

    world.tasky2.delete("task", [1, 6])
    world.shows([two, three, five], ["Anna", "Ben", "Zoë"])

    world.tasky.delete("task", [2, 5])
    world.shows([three], ["Anna", "Ben", "Zoë"])
    world.tasky2.delete("author", [world.author("Zoë")])
    world.shows([three], ["Anna", "Ben"])


# --- TasKy ------------------------------------------------------------------------------------


def test_a_task_comes_to_do_and_goes_with_its_priority(world: World) -> None:
    one, two, three, four = START
    for prio in (1, 2, 1, None, 1, 3):
        world.tasky.update("task", {"id": [1], "prio": [prio]})
        world.shows([(*one[:3], prio), two, three, four], ["Ann", "Ben"])
    assert [row[0] for row in rows(world.do, "todo")] == [3, 4]


def test_tasky_names_another_author(world: World) -> None:
    one, two, three, four = START
    world.tasky.update("task", {"id": [1, 3], "author": ["Zoë", "Ben"]})
    world.shows([(1, "Zoë", *one[2:]), two, (3, "Ben", *three[2:]), four], ["Ann", "Ben", "Zoë"])
    world.tasky.update("task", {"id": [3], "author": [None]})
    tasks = [(1, "Zoë", *one[2:]), two, (3, None, *three[2:]), four]
    world.shows(tasks, ["Ann", "Ben", "Zoë"])
    assert world.tasky2.table("task").get(3)["author"] is None


# --- Do! --------------------------------------------------------------------------------------


def test_do_writes_urgent_tasks(world: World) -> None:
    one, two, _, four = START
    world.do.insert("todo", [{"id": 0, "author": "Eve", "task": None}])
    world.shows([(0, "Eve", None, 1), *START], ["Ann", "Ben", "Eve"])
    world.do.update("todo", {"id": [0, 3], "task": ["Tidy", "Write book"]})
    tasks = [(0, "Eve", "Tidy", 1), one, two, (3, "Ann", "Write book", 1), four]
    world.shows(tasks, ["Ann", "Ben", "Eve"])
    world.do.update("todo", {"id": [4], "author": ["Ann"]})
    world.shows([*tasks[:4], (4, "Ann", *four[2:])], ["Ann", "Ben", "Eve"])
    world.do.delete("todo", [0, 3, 4])
    world.shows([one, two], ["Ann", "Ben", "Eve"])


def test_do_takes_over_a_task_it_did_not_see(world: World) -> None:
    """The rules of a split: of twins that went apart, TasKy sees that of Do!."""
    _, two, three, four = START
    world.do.insert("todo", [{"id": 1, "author": "Eve", "task": "Mine"}])
    world.shows([(1, "Eve", "Mine", 1), two, three, four], ["Ann", "Ben", "Eve"])


# --- TasKy2 -----------------------------------------------------------------------------------


def test_an_author_has_another_name_everywhere(world: World) -> None:
    one, two, three, four = START
    world.tasky2.update("author", {"id": [world.author("Ben")], "name": ["Benedikt"]})
    tasks = [one, (2, "Benedikt", *two[2:]), three, (4, "Benedikt", *four[2:])]
    world.shows(tasks, ["Ann", "Benedikt"])
    assert world.do.table("todo").get(4)["author"] == "Benedikt"
    world.tasky.insert("task", [{"id": 5, "author": "Ben", "task": "Wait", "prio": 1}])
    world.shows([*tasks, (5, "Ben", "Wait", 1)], ["Ann", "Ben", "Benedikt"])


def test_tasky2_writes_tasks_and_authors_together(world: World) -> None:
    with world.tasky2.transaction() as tx:
        tx.insert("author", [{"id": 77, "name": "Kim"}])
        tx.insert("task", [{"id": 7, "task": "Sing", "prio": 1, "author": 77}])
        tx.update("task", {"id": [1], "author": [77], "prio": [1]})
    tasks = [(1, "Kim", "Organize party", 1), *START[1:], (7, "Kim", "Sing", 1)]
    world.shows(tasks, ["Ann", "Ben", "Kim"])
    with pytest.raises(livingdb.InvalidData, match="refer"):
        world.tasky2.delete("author", [77])
    with pytest.raises(livingdb.InvalidData):
        world.tasky2.insert("task", [{"id": 8, "task": "?", "prio": 1, "author": 99}])
    world.shows(tasks, ["Ann", "Ben", "Kim"])


# --- at the same time -------------------------------------------------------------------------


def test_transactions_that_are_open_at_the_same_time(world: World) -> None:
    """None waits for another, and none is lost."""
    with ExitStack() as open_ones:
        tasky, do, tasky2 = (
            open_ones.enter_context(branch.transaction())
            for branch in (world.tasky, world.do, world.tasky2)
        )
        tasky.insert("task", [{"id": 5, "author": "Ann", "task": "a", "prio": 1}])
        do.insert("todo", [{"id": 6, "author": "Ben", "task": "b"}])
        do.update("todo", {"id": [4], "task": ["Clean house"]})
        ann = world.author("Ann")
        tasky2.insert("task", [{"id": 7, "task": "c", "prio": 1, "author": ann}])
        tasky2.update("task", {"id": [1], "prio": [1]})
        world.shows(START, ["Ann", "Ben"])
    one, two, three, _ = START
    urgent = [(*one[:3], 1), two, three, (4, "Ben", "Clean house", 1)]
    more = [(5, "Ann", "a", 1), (6, "Ben", "b", 1), (7, "Ann", "c", 1)]
    world.shows([*urgent, *more], ["Ann", "Ben"])


def test_two_who_change_the_same_task_are_told(world: World) -> None:
    with pytest.raises(livingdb.TransactionConflict), world.do.transaction() as tx:
        tx.update("todo", {"id": [3], "task": ["mine"]})
        world.tasky2.update("task", {"id": [3], "task": ["theirs"]})
    world.shows([*START[:2], (3, "Ann", "theirs", 1), START[3]], ["Ann", "Ben"])


def test_applications_that_write_at_the_same_time(world: World) -> None:
    """Each with a connection of its own."""
    count, failures = 6, []

    def work(branch: str, write: Callable[[livingdb.Branch, int], object], first: int) -> None:
        try:
            with livingdb.open(world.db.name) as db:
                for number in range(first, first + count):
                    write(db.branch(branch), number)
        except BaseException as error:
            failures.append(error)

    ann = world.author("Ann")
    writes: list[tuple[str, Callable[[livingdb.Branch, int], object], int]] = [
        (
            "main",
            lambda b, n: b.insert("task", [{"id": n, "author": "Ann", "task": "t", "prio": n % 2}]),
            100,
        ),
        ("do", lambda b, n: b.insert("todo", [{"id": n, "author": "Ann", "task": "t"}]), 200),
        (
            "tasky2",
            lambda b, n: b.insert("task", [{"id": n, "task": "t", "prio": 1, "author": ann}]),
            300,
        ),
    ]
    threads = [threading.Thread(target=work, args=write) for write in writes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    made = [(n, "Ann", "t", n % 2) for n in range(100, 100 + count)]
    made += [(n, "Ann", "t", 1) for first in (200, 300) for n in range(first, first + count)]
    world.shows([*START, *made], ["Ann", "Ben"])


def test_nothing_moves_when_it_is_written_again(world: World) -> None:
    world.tasky.update("task", {"id": [1, 4], "prio": [1, 2]})
    for branch in (world.tasky, world.do, world.tasky2):
        others = {other.name: other.head for other in world.db.branches() if other != branch}
        for table in branch.tables():
            branch.upsert(table, branch.table(table).to_arrow())
        assert {name: world.db.branch(name).head for name in others} == others


def test_after_migrating_and_opening_again(world: World) -> None:
    for branch in (world.do, world.tasky2, world.tasky):
        branch.migrate()
    world.db.compact()
    with livingdb.open(world.db.name) as db:
        again = World(db)
        again.shows(START, ["Ann", "Ben"])
        again.do.delete("todo", [3])
        again.shows([*START[:2], START[3]], ["Ann", "Ben"])
    world.shows([*START[:2], START[3]], ["Ann", "Ben"])
