"""What a machine without Java can do: everything but Spark, and it is told so in a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import livingdb

RUN = [sys.executable, "-m", "livingdb"]


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """An environment in which there is no Java."""
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return dict(os.environ)


def test_the_demo_tells_all_chapters(no_java: dict[str, str]) -> None:
    done = subprocess.run(
        [*RUN, "-o", "json", "demo", "--rows", "2000"],
        env=no_java,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    chapters = json.loads(done.stdout)
    assert [chapter["chapter"] for chapter in chapters] == list(range(1, 10))
    facts = {chapter["chapter"]: chapter["facts"] for chapter in chapters}
    assert facts[1]["orders"] > 1900
    assert [run["name"] for run in facts[3]["runs"]] == ["returns"]
    assert facts[9]["is_sound"]
    assert "Traceback" not in done.stderr


def test_what_needs_spark_says_how(
    no_java: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import livingdb.spark.start_session as start

    monkeypatch.setattr(start, "_is_running", lambda: False)
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "double"}, key="id")
        main.insert("t", {"id": [1, 2], "v": [1.0, 2.0]})
        with pytest.raises(livingdb.Unsupported, match=r'openjdk.*JAVA_HOME.*engine="auto"'):
            main.derive("sums", sql="SELECT sum(v) AS v FROM t")
        main.derive("sums", sql="SELECT sum(v) AS v FROM t", engine="auto")
        assert db.at("sums").table("sums").to_arrow()["v"].to_pylist() == [3.0]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT sum(vv) AS v FROM t", "no column vv; did you mean 'v'"),
        ("SELECT sum(a.vv) AS v FROM t a", "no column a.vv; did you mean 'v'"),
        ("SELECT percentile_approx(w, 0.5) AS v FROM t", "no column w; the columns are id, v"),
        ("SELECT transform(array(v), x -> x + y) AS v FROM t", "no column y"),
        ("SELECT summ(v) AS v FROM t", "did you mean 'sum'"),
        ("SELECT sum(v) AS v FROM tt", "no table 'tt'; did you mean 't'"),
        ("SELECT sum(v) AS v FROMM t", "syntax error"),
    ],
)
def test_a_typo_is_told_before_spark_starts(
    no_java: dict[str, str], tmp_path: Path, sql: str, says: str
) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "double"}, key="id")
        for engine in (None, "spark"):
            with pytest.raises(livingdb.LivingDBError, match=says):
                main.derive("sums", sql=sql, engine=engine)
