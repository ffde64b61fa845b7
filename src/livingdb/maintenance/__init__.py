"""Upkeep: looking at everything, writing it tighter, saying what it weighs."""
