"""The snapshot graph: snapshots, edges, refs, the commit point, diff and three-way merge of rows,
the rules.
"""
