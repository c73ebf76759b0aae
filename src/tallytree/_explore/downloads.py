"""What a view shows, as files."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.csv

from tallytree._charts import svg
from tallytree._explore.address import Address
from tallytree._explore.pictures import page_picture, sizes_picture
from tallytree._explore.shown import OpenedRelease
from tallytree._explore.walk import Page
from tallytree.release.remainders import NOT_LISTED


def shown_page(shown: OpenedRelease, address: Address) -> Page:
    """The rows that the table of a view shows."""
    return shown.walk.page(address.table, address.places, alpha=address.alpha, order=address.order, first=address.first)


def csv_of_page(shown: OpenedRelease, address: Address) -> str:
    """The rows of the view's page as CSV (RFC 4180): what the table on the screen holds, with all columns."""
    rows, buffer = shown_page(shown, address).rows, io.BytesIO()
    for side in shown.walk.sides if shown.walk.view.partly_listed else ():
        for name in (each for each in side.columns if each in rows.column_names):
            rows = rows.set_column(rows.column_names.index(name), name, rows.column(name).fill_null(NOT_LISTED))
    pa.csv.write_csv(rows, buffer)
    return buffer.getvalue().decode()


def svg_of_view(shown: OpenedRelease, address: Address) -> str:
    """The picture of the view as SVG: of group sizes where the view is about one node of them, else of its rows."""
    picture: Any = sizes_picture(shown.walk, address) if address.places else None
    if picture is None:
        picture = page_picture(shown.walk, address, shown_page(shown, address))
    return svg(picture) if picture is not None else EMPTY


EMPTY = '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="40"><text x="8" y="24">no rows</text></svg>'
