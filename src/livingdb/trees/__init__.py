"""Columnar Prolly trees: build, edit, scan, seek, diff and merge."""
