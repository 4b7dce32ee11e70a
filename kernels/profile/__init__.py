"""Measurements that users of the flow make first: compiling, fusing, MXINT8, and the formats.

Each `profile_*` function returns a `Report` with tables, notes and a figure; `mase-hw profile`
prints and saves it.
"""
