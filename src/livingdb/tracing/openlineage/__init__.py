"""Runs of syncs as OpenLineage events."""
