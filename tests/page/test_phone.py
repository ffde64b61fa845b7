"""The page on a phone: what is to be pressed or read is on the screen."""

from __future__ import annotations

import pytest
from tests.page.visitor import VIEWS, Visitor

WIDTH, HEIGHT = 390, 800
_OUTSIDE = """
    const wide = document.documentElement.clientWidth;
    return [...document.querySelectorAll('header.top a, main button, main a, main input')]
        .filter((one) => one.getClientRects().length && !one.closest('.rows:not(.stack)'))
        .filter((one) => one.getBoundingClientRect().right > wide + 1)
        .map((one) => one.innerText || one.outerHTML.slice(0, 80));
"""


@pytest.fixture
def phone(visitor: Visitor) -> Visitor:
    visitor.browser.emulate(WIDTH, HEIGHT)
    return visitor


@pytest.mark.parametrize("name", VIEWS)
def test_nothing_to_press_is_beside_the_screen(phone: Visitor, name: str) -> None:
    phone.go(VIEWS[name])
    phone.browser.settle()
    assert phone.run(_OUTSIDE) == []


def test_a_row_that_is_chosen_comes_into_sight(phone: Visitor) -> None:
    phone.go(VIEWS["data"])
    phone.press("7", within="table.rows")
    phone.see("aside.side", "History")
    place = "return document.querySelector('aside.side').getBoundingClientRect().top"
    phone.until(lambda: 0 <= phone.run(place) < HEIGHT - 100)


def test_the_graph_says_what_fingers_do(phone: Visitor) -> None:
    phone.come()
    assert "pinch to zoom" in phone.see("#hint", "tap")
