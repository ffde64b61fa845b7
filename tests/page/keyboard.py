"""A keyboard: keys as Chromium takes them from a hand, and where they lead."""

from __future__ import annotations

from typing import Any

from tests.page.visitor import Visitor

_CODES = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "ArrowLeft": 37, "ArrowDown": 40}
_TEXTS = {"Enter": "\r", " ": " "}
_CONTROL = 2
_MOST_STEPS = 400

_CONTROLS = """
    const kinds = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
    window.controls = [...document.querySelectorAll(kinds)].filter((one) =>
        one.checkVisibility({ visibilityProperty: true }) && !one.disabled && one.tabIndex >= 0);
    window.walked = [];
    window.unseen = [];
    const isSeen = (one) => {
        const style = getComputedStyle(one), box = one.getBoundingClientRect();
        const isLined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
        const isThere = box.width > 0 && box.right > 0 && box.bottom > 0
            && box.left < innerWidth && box.top < innerHeight;
        return one.matches(':focus-visible') && isLined && isThere;
    };
    document.addEventListener('focusin', (event) => {
        window.walked.push(window.controls.indexOf(event.target));
        const one = event.target;
        requestAnimationFrame(() => {
            if (document.activeElement === one && !isSeen(one))
                window.unseen.push(one.outerHTML.slice(0, 120));
        });
    });
    document.activeElement.blur();
    return window.controls.length;
"""
_HERE = """
    const one = document.activeElement;
    const field = one.closest('label');
    return one === document.body ? '' : one.getAttribute('aria-label') ?? (
        one.matches('input, select, textarea') && field ? field.innerText : one.innerText).trim();
"""


class Keyboard:
    """Somebody who has no pointer."""

    def __init__(self, visitor: Visitor):
        self.visitor = visitor

    def press(self, key: str, control: bool = False) -> None:
        """One key, down and up."""
        told: dict[str, Any] = {"key": key, "code": "Space" if key == " " else key}
        told |= {"windowsVirtualKeyCode": _CODES[key], "modifiers": _CONTROL if control else 0}
        down = told | {"type": "keyDown" if key in _TEXTS else "rawKeyDown"}
        if key in _TEXTS:
            down["text"] = _TEXTS[key]
        driver = self.visitor.browser.driver
        driver.execute_cdp_cmd("Input.dispatchKeyEvent", down)
        driver.execute_cdp_cmd("Input.dispatchKeyEvent", told | {"type": "keyUp"})

    def type(self, words: str) -> None:
        """Words, where the focus is."""
        self.visitor.browser.driver.execute_cdp_cmd("Input.insertText", {"text": words})

    def here(self) -> str:
        """What is called what has the focus; nothing if nothing has."""
        return str(self.visitor.run(_HERE)).split("\n")[0]

    def tab_to(self, words: str) -> None:
        """To a control by Tab alone, as often as it takes."""
        for _ in range(_MOST_STEPS):
            if self.here() == words:
                return
            self.press("Tab")
        raise AssertionError(f"Tab does not reach {words!r}")

    def walk(self) -> tuple[list[int], list[int], list[str]]:
        """All controls in their order, those that Tab reached, and where the focus is not seen."""
        count = self.visitor.run(_CONTROLS)
        for _ in range(count):
            self.press("Tab")
        self.visitor.browser.settle()
        walked, unseen = self.visitor.run("return [window.walked, window.unseen]")
        return list(range(count)), walked, unseen
