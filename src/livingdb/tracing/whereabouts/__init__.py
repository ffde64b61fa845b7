"""Whereabouts: every place that has a row or had it."""
