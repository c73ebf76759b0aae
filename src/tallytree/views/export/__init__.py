"""A release in the formats that other programs read: CSV, XLSX, Parquet, GeoParquet, DuckDB and SDMX-CSV."""

from tallytree.views.export.exporting import FORMATS, Exported, export

__all__ = ["FORMATS", "Exported", "export"]
