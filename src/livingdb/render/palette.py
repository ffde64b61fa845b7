"""Colours, for light and dark backgrounds: calm, and apart for those who see few of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["DARK", "LIGHT", "MERMAID_STATES", "Scheme"]


@dataclass(frozen=True)
class Scheme:
    """Colours by what they are for; branches take those of `lanes` in turn."""

    colors: Mapping[str, str]
    lanes: tuple[str, ...]

    def to_css(self) -> str:
        """The scheme as CSS custom properties."""
        parts = [f"--{name}:{color}" for name, color in self.colors.items()]
        parts += [f"--lane{at}:{color}" for at, color in enumerate(self.lanes)]
        return ";".join(parts)


LIGHT = Scheme(
    {
        "paper": "#fbfaf7",
        "ink": "#1f2328",
        "soft": "#59616b",
        "line": "#dcd9d2",
        "band": "#f3f1ec",
        "panel": "#ffffff",
        "active": "#2a7a4b",
        "held": "#9a6700",
        "detached": "#6e7781",
        "error": "#c0362c",
    },
    (
        "#2f6690",
        "#a4553a",
        "#4b7f52",
        "#7d5a99",
        "#2a7f86",
        "#8a6d1f",
        "#a64b73",
        "#55648c",
    ),
)
DARK = Scheme(
    {
        "paper": "#16181c",
        "ink": "#e8e6e1",
        "soft": "#a3abb5",
        "line": "#353a42",
        "band": "#1d2025",
        "panel": "#1f2329",
        "active": "#5fbf86",
        "held": "#e0b14a",
        "detached": "#8d96a0",
        "error": "#f0857b",
    },
    (
        "#7fb2da",
        "#e0977c",
        "#8fc497",
        "#bd9bd8",
        "#74c3c9",
        "#cfb363",
        "#e08fb3",
        "#9fb0dc",
    ),
)
MERMAID_STATES = {"active": "#2a7a4b", "held": "#c58a12", "detached": "#8a929b", "error": "#c0362c"}
