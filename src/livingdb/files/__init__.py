"""The file seam: the only place in LivingDB that opens, syncs, renames and lists.

`open_files(url)` in `url.py` gives the `Files` behind a path, a `file://`, `s3://` or `gs://` URL.
Whatever is behind it, a file appears whole or not at all.
"""
