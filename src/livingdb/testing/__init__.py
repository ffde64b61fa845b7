"""Twins of LivingDB's seams, for tests: one that never fails, and one that fails on request."""

from __future__ import annotations

from livingdb.testing.faulty_files import Fault, FaultyFiles, Step
from livingdb.testing.memory_files import MemoryFiles
from livingdb.testing.power_loss import DiskLog, Loss

__all__ = ["DiskLog", "Fault", "FaultyFiles", "Loss", "MemoryFiles", "Step"]
