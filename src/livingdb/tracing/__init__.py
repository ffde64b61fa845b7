"""Where rows, columns and snapshots come from: blame, history, lineage, provenance, whereabouts."""
