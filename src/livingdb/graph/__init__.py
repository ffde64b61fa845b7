"""The snapshot graph: snapshots, edges, branches, history, merge, diff and blame."""
