"""Merges, requests for them, reverts and cherry-picks: schemas first, then rows of one schema."""
