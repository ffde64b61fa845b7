"""Chunks: canonical columnar codec, addresses, the stores they lie in, packs."""
