"""Identities: what branches and syncs are called by records, whatever their names are."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["BranchId", "SyncId"]

BranchId: TypeAlias = int
SyncId: TypeAlias = int
