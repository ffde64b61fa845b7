"""Writers that are killed all the time, and a history of what they saw without an anomaly."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, make_url, text
from tests.crash import nursery
from tests.crash.isolation_checker import Append, Read, Transaction, anomalies
from tests.property.trying import tries

import livingdb

WRITERS = 4
KILL_SECONDS = 0.2
LOOK_SECONDS = 0.01  # a writer that is fast is killed before it is done
LIFE = 8  # transactions, at least, of a writer that is killed
LISTS = pa.schema({"id": pa.int64(), "items": pa.list_(pa.int64())})


def history_of(path: Path) -> list[Transaction]:
    """What a writer wrote down; what it does not say the end of, nobody knows.

    A line that was cut short is of a transaction which was not committed: that is begun after it.
    """
    found: list[Transaction] = []
    is_open = False
    for line in path.read_text().splitlines():
        if not line.endswith("}"):
            is_open = False
            continue
        told = json.loads(line)
        if "steps" in told:
            steps = [
                Append(key, what) if kind == "append" else Read(key, tuple(what))
                for kind, key, what in told["steps"]
            ]
            found.append(Transaction(steps, "unknown"))
        elif "outcome" in told and is_open:
            found[-1] = Transaction(found[-1].steps, told["outcome"])
        is_open = "steps" in told
    return found


class Writers:
    """Four programs, each started again when it was killed."""

    def __init__(self, url: str, count: int, seed: int, isolation: str, folder: Path):
        self.order = (url, count, seed, isolation)
        self.histories = [folder / f"history-{me}" for me in range(WRITERS)]
        for path in self.histories:
            path.touch()
        self.began = dict.fromkeys(range(WRITERS), 0)
        self.running = {me: self._start(me) for me in range(WRITERS)}
        self.kills = 0

    def _start(self, me: int) -> nursery.Child:
        url, count, seed, isolation = self.order
        self.began[me] = self._ended(me)
        if self.histories[me].read_text()[-1:] not in ("", "\n"):
            with self.histories[me].open("a") as history:
                history.write("\n")  # the one that was killed did not come to the end of its line
        given = (url, str(me), str(count), str(seed), isolation, str(self.histories[me]))
        return nursery.start("tests.crash.list_append", *given)

    def _ended(self, me: int) -> int:
        return self.histories[me].read_text().count('"outcome"')

    def run(self, dice: random.Random, kills: int) -> None:
        """Kill one after the other until all but one are done, or so many times.

        Those that have come to something since they were started: a busy machine is a slow one.
        """
        last, pause = 0.0, KILL_SECONDS if kills > 2 else 0.0
        while self.running:
            time.sleep(LOOK_SECONDS)
            is_due = self.kills < kills and time.monotonic() - last >= pause
            if is_due and len(self.running) > 1:
                busy = [me for me in self.running if self._ended(me) - self.began[me] >= LIFE]
                if busy:
                    self.running[dice.choice(busy)].kill()
                    self.kills += 1
                    last = time.monotonic()
            for me, child in list(self.running.items()):
                if child.has_ended():
                    code = child.wait(60)
                    assert code in (0, -9), f"writer {me} ended with {code}"
                    del self.running[me]
                    if code != 0:
                        self.running[me] = self._start(me)


def append_to_lists(
    url: str, folder: Path, seed: int, isolation: str, count: int, kills: int
) -> None:
    with livingdb.create(url) as db:
        main = db.branch("main")
        main.create_table("lists", LISTS, key="id")
        writers = Writers(url, count, seed, isolation, folder)
        writers.run(random.Random(seed), kills)
        assert writers.kills >= min(kills, 2)
        history = [one for path in writers.histories for one in history_of(path)]
        final = {
            row["id"]: tuple(row["items"]) for row in main.table("lists").to_arrow().to_pylist()
        }
        assert len(history) >= WRITERS * count
        ended = [one.outcome for one in history]
        assert ended.count("ok") > len(history) // 4
        found = anomalies(history, final, isolation == "serializable")
        assert found == set(), (seed, isolation, found)
        assert db.check().problems == []


@pytest.fixture
def shared_url(postgres_url: str, tmp_path: Path) -> Iterator[str]:
    """A new database in PostgreSQL."""
    name = f"livingdb_{uuid.uuid4().hex[:12]}"
    engine = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    parsed = make_url(postgres_url).set(drivername="postgresql", database=name)
    parsed = parsed.update_query_dict({"data": str(tmp_path / "data")})
    yield parsed.render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_some_appends(folder: Path, isolation: str) -> None:
    append_to_lists(str(folder / "db"), folder, 1, isolation, count=100, kills=2)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
@pytest.mark.parametrize("seed", range(1, 1 + tries(3)))
def test_appends(folder: Path, seed: int, isolation: str) -> None:
    append_to_lists(str(folder / "db"), folder, seed, isolation, count=500, kills=10_000)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("seed", "isolation"), [(1, "snapshot"), (2, "serializable"), (3, "serializable")]
)
def test_appends_with_postgresql(shared_url: str, folder: Path, seed: int, isolation: str) -> None:
    append_to_lists(shared_url, folder, seed, isolation, count=250, kills=10_000)


# --- the checker ---------------------------------------------------------------------------------


def did(*steps: str, outcome: str = "ok") -> Transaction:
    """ "x+1" appends 1 to x; "x=1,2" reads 1 and 2 from it."""
    made: list[Append | Read] = []
    for step in steps:
        key, rest = "xyz".index(step[0]), step[2:]
        if step[1] == "+":
            made.append(Append(key, int(rest)))
        else:
            made.append(Read(key, tuple(map(int, filter(None, rest.split(","))))))
    return Transaction(made, outcome)  # type: ignore[arg-type]


PLANTED = {
    "G0": [did("x+1", "y+1001"), did("x+2", "y+1002"), did("x=1,2", "y=1002,1001")],
    "G1a": [did("x+1", outcome="failed"), did("x=1")],
    "G1b": [did("x+1", "x+2"), did("x=1")],
    "G1c": [did("x+1", "y=1001"), did("y+1001", "x=1")],
    "G-single": [did("x+1", "y+1001"), did("x=1", "y=")],
    "lost update": [did("x=", "x+1"), did("x=", "x+2")],
    "G2": [did("x=", "y+1001"), did("y=", "x+1")],
    "internal": [did("x+1"), did("x=1", "x+2", "x=1")],
    "duplicate": [did("x+1"), did("x=1,1")],
    "incompatible order": [did("x+1"), did("x+2"), did("x=1,2"), did("x=2")],
    "lost write": [did("x+1"), did("x+2"), did("x=2")],
}
FINALS = {
    "G0": {0: (1, 2), 1: (1002, 1001)},
    "lost update": {0: (1, 2)},
    "lost write": {0: (2,)},
}


def final_of(name: str) -> dict[int, tuple[int, ...]]:
    """What the lists hold in the end: all that was appended, unless a case says otherwise."""
    if name in FINALS:
        return FINALS[name]
    found: dict[int, tuple[int, ...]] = {}
    for one in PLANTED[name]:
        for step in one.appends:
            if one.outcome == "ok":
                found[step.key] = (*found.get(step.key, ()), step.element)
    return found


@pytest.mark.parametrize("name", PLANTED)
def test_the_checker_finds_what_was_planted(name: str) -> None:
    sound = [did("z+9000", "z=9000"), did("z=9000", "z+9001"), did("z=9000,9001")]
    final = {**final_of(name), 2: (9000, 9001)}
    assert name in anomalies([*sound, *PLANTED[name]], final, serializable=True)
    assert anomalies(sound, {2: (9000, 9001)}, serializable=True) == set()


def test_what_each_isolation_allows() -> None:
    """Write skew is none under snapshot isolation; what nobody knows the end of may be there."""
    assert anomalies(PLANTED["G2"], final_of("G2")) == set()
    lost = did("x+1", outcome="unknown")
    for final in ({0: (1,)}, {0: ()}):
        assert anomalies([lost, did("y+7")], {**final, 1: (7,)}, serializable=True) == set()
