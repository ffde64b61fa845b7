"""Syncs: branches that are kept in step."""
