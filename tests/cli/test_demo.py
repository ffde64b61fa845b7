"""The demonstration: its figures add up, and it leaves nothing behind."""

from __future__ import annotations

from contextlib import nullcontext
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.cli.test_cli import livingdb_process

from livingdb.cli.demo import show
from livingdb.cli.story import Story, tell

ROWS = 16_000


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return tell(tmp_path_factory.mktemp("demo"), ROWS, lambda _: nullcontext())


def test_its_snapshots_add_up(story: Story) -> None:
    rows = {"main": 0}
    first = story.made[0]
    assert (first.rows, first.changed["inserted"]) == (ROWS, ROWS)
    for made in story.made:
        before = rows.get(made.branch, rows["main"])
        assert made.rows == before + made.changed["inserted"] - made.changed["deleted"]
        assert sum(made.changed.values()) > 0
        rows[made.branch] = made.rows
    assert {made.branch for made in story.made} == {"main", "audit"}
    assert len({made.id for made in story.made}) == len(story.made)


def test_the_merge_stops_and_then_goes_through(story: Story) -> None:
    assert len(story.conflicts) == 3
    for row in story.conflicts:
        assert row["_ours"]["amount"] == pytest.approx(row["_theirs"]["amount"] + 1)
    assert story.merged_rows == story.made[-1].changed
    assert story.merged_rows["updated"] > 100


def test_it_says_where_a_row_comes_from(story: Story) -> None:
    assert story.blamed["author"] == "eva"
    amounts = [row["amount"] for row in story.history]
    both = story.conflicts[0]
    assert amounts[0] == both["_theirs"]["amount"]
    assert amounts[-1] == both["_base"]["amount"]
    assert both["_ours"]["amount"] in amounts
    assert story.asked[1].answer == [{"amount": both["_base"]["amount"]}]


def test_it_stays_small_and_sound(story: Story) -> None:
    assert story.is_sound
    assert story.compact_bytes < story.bytes
    assert story.sharing > 1.5
    assert story.snapshots == len(story.made) + 3


def test_what_it_shows_is_what_it_found(story: Story) -> None:
    out = StringIO()
    show(story, Console(file=out, width=100))
    text = out.getvalue()
    for made in story.made:
        assert made.id[:8] in text
        assert f"{made.rows:,}" in text
    assert story.blamed["snapshot"][:8] in text
    for asked in story.asked:
        assert asked.text in text
    assert f"{story.snapshots} snapshots" in text


def test_the_demo_runs_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    answer = livingdb_process("demo", "--rows", "4000")
    assert answer.returncode == 0
    assert answer.stderr == "", "progress is for terminals"
    assert "Every change is a snapshot" in answer.stdout
    assert "PROBLEMS" not in answer.stdout
    assert list(tmp_path.iterdir()) == []
