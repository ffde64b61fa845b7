"""The picture for a terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.render.pictures import item, large, small

from livingdb.render.arrange import arrange_graph
from livingdb.render.labels import cut, display_width, one_line

GOLDEN = """\
shop.ldb: 12 snapshots on 4 branches, 2 syncs, 2026-11-15

●            9e3779b main    2026-11-15 12:01 create the database — ada
●            3c6ef36 main    2026-11-15 12:02 first orders — ada
╞═▸○                 dev     2026-11-15 12:02 clone at 3c6ef36
│  ●         daa66d1 dev     2026-11-15 12:03 fix city — ada
●  │         78dde6c main    2026-11-15 12:04 more orders — ada
◆◂─┤         1715607 main    2026-11-15 12:05 merge dev into main (of daa66d1) — ada
╞══╪═▸▲      b54cda2 totals  2026-11-15 12:06 derive totals — ada
●  │  ╎      538453d main    2026-11-15 12:07 #v1 Bodø — grace
├┄┄┼┄▸◌      f1bbcd8 totals  2026-11-15 12:08 [totals] s8 — ada
╞══╪════▸■   8ff3473 main_v2 2026-11-15 12:09 AddColumn orders vat — ada
╎  │     ●   2e2ac0e main_v2 2026-11-15 12:10 [main_v2] with vat — ada
◌◂┄┼┄┄┄┄┄╯   cc623a9 main    2026-11-15 12:11 [main] s11 — ada
   ╰─▸●      6a99b44 (try)   2026-11-15 12:12 an attempt — ada

Syncs
  main → totals: held · immediate · at most 20% changed ⇒ hold · too many rows
  main ↔ main_v2: immediate · active

● transaction ◆ merge ■ schema change ▲ derived ◌ propagated ○ start of a branch
─ follows ═ schema change, clone, derivation ┄ propagation
"""


def test_a_small_graph() -> None:
    assert small().to_text(width=100) == GOLDEN


def test_without_the_colours_it_is_the_same() -> None:
    plain, colored = (small().to_text(width=90, color=color) for color in (False, True))
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain
    assert "\x1b" not in plain


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_it_may_be(width: int) -> None:
    hostile = ["x" * 200, "日本語" * 30, "a\nb\x1b[31m", "مرحبا " * 20]
    for graph in (small(), large(200, 50, messages=hostile)):
        lines = graph.to_text(width=width).splitlines()
        if width > 60:
            assert all(display_width(line) <= width for line in lines)
        assert not any(ord(letter) < 32 for line in lines for letter in line)


def test_an_empty_graph_has_a_title_only() -> None:
    assert (
        arrange_graph("empty", [], [], 0, []).to_text(width=80)
        == "empty: 0 snapshots on 0 branches\n"
    )


def test_one_that_follows_what_is_not_shown_says_so() -> None:
    graph = arrange_graph("t", [item(2, 0, [1])], ["main"], 1, [])
    assert "(older ones are not shown)" in graph.to_text(width=100)


@given(st.text(), st.integers(0, 60))
def test_a_cut_text_fits_and_is_on_one_line(text: str, width: int) -> None:
    shown = cut(text, width)
    assert display_width(shown) <= width
    assert one_line(shown) == shown
    assert "\n" not in shown
    shown.encode()


def test_marks_that_turn_the_direction_of_text_are_left_out() -> None:
    assert one_line("a\u202eb\u2066c\u0000d\ud800") == "abc d\ufffd"
