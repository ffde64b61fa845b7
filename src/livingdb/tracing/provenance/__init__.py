"""Provenance: what made a snapshot, from what, by whom."""
