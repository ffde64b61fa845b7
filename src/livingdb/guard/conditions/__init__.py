"""Conditions: what has to hold of a change before a sync carries it."""
