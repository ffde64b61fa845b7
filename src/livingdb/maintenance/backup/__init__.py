"""Backups: the rows of the catalog and the packs, at a place of their own; and the way back."""
