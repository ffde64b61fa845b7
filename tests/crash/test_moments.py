"""What is left out when not every moment is tried is told apart from nothing else."""

from __future__ import annotations

from tests.crash.moments import killing_moments, states

WRITE = ["before write by SQLite", "middle write by SQLite", "after write by SQLite"]
MOMENTS = [
    "before BEGIN",
    "after BEGIN",
    *WRITE,
    *WRITE,
    "before INSERT INTO chunk",
    "after INSERT INTO chunk",
    "before commit",
    "before rename of a pack",
    "after rename of a pack",
    "before rollback",
]


def test_one_moment_for_every_state_of_the_disk() -> None:
    """The last one at which it is so: as much as can be was acknowledged by then."""
    assert [(number, MOMENTS[number - 1]) for number in states(MOMENTS)] == [
        (3, "before write by SQLite"),
        (4, "middle write by SQLite"),
        (6, "before write by SQLite"),
        (7, "middle write by SQLite"),
        (12, "before rename of a pack"),
        (14, "before rollback"),
    ]


def test_every_kind_of_moment_and_as_many_as_were_asked_for() -> None:
    assert killing_moments(MOMENTS, 0, "few") == [3, 4, 12, 14]
    assert len(killing_moments(MOMENTS, 5, "some")) == 5
    assert killing_moments(MOMENTS, 99, "all") == states(MOMENTS)
    assert states([]) == killing_moments([], 9, "none") == []


def test_the_same_seed_says_the_same() -> None:
    many = MOMENTS * 50
    assert killing_moments(many, 40, "one") == killing_moments(many, 40, "one")
    assert killing_moments(many, 40, "one") != killing_moments(many, 40, "another")
