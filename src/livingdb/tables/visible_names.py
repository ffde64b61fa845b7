"""Names that show what they are: no character of a name is invisible or turns others around.

Two names that look the same are two things that people take for one, and a name that turns the
direction of a line shows something else than it is.
"""

from __future__ import annotations

import unicodedata

from livingdb.errors import InvalidName

__all__ = ["check_visible"]

_UNSEEN_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs")
"""Control and format characters, halves of some, and all that separates; a plain blank is seen."""
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that draw nothing."""
_SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
"""Marks that choose among the pictures of the character before them."""


def check_visible(what: str, name: str) -> None:
    """`InvalidName` if a character of the name is not seen."""
    if name.isascii() and name.isprintable():
        return
    for character in name:
        if character != " " and _is_unseen(character):
            shown = unicodedata.name(character, "a control character")
            raise InvalidName(
                f"{what} {name!r}: {shown} (U+{ord(character):04X}) is invisible or changes the "
                "direction of the text, and is not allowed in a name"
            )


def _is_unseen(character: str) -> bool:
    if character.isascii() and character.isprintable():
        return False
    return (
        unicodedata.category(character) in _UNSEEN_CATEGORIES
        or character in _UNSEEN
        or any(first <= ord(character) <= last for first, last in _SELECTORS)
    )
