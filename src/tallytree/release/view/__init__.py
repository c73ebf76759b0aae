"""How a release is read: its levels, tree, areas, paths, slices, errors and measurements. Nothing else reads one.

`release_view.py` has `ReleaseView`, through which reports, the explorer, exports, totals and errors read.
"""
