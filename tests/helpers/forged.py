"""A saved release in the hands of a forger, who changes what it says and signs it again."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq


class Forged:
    """The folder of a release, to be changed; `sign` makes all its digests and numbers of rows agree again.

    Attributes:
        folder: the folder.
        manifest: what its release.json says, to be changed in place.
    """

    def __init__(self, folder):
        self.folder = folder
        self.manifest = json.loads((folder / "release.json").read_text(encoding="utf-8"))
        self.statement, self.spec = self.manifest["statement"], self.manifest["spec"]

    def level(self, name):
        """What the statement says of a level."""
        return next(level for level in self.statement["levels"] if level["level"] == name)

    def read(self, name):
        """The table in a Parquet file."""
        return pq.read_table(self.folder / name)

    def write(self, name, table):
        """Another table in its place."""
        pq.write_table(table, self.folder / name)

    def change(self, name, column, change):
        """Change a column of a Parquet file; `change` gets a list of its values."""
        table = self.read(name)
        place, kind = table.column_names.index(column), table[column].type
        self.write(name, table.set_column(place, column, pa.array(change(table[column].to_pylist()), kind)))

    def empty(self, name):
        """Leave no row in a Parquet file."""
        self.write(name, self.read(name).slice(0, 0))

    def tables(self, kind="tables"):
        """The names of its Parquet files of one kind."""
        return [name for name in self.manifest["files"] if name.startswith(f"{kind}/") and name.endswith(".parquet")]

    def part(self, name):
        """A part of a release of households, to be forged and signed by itself, before the whole."""
        return Forged(self.folder / name)

    def sign(self, *, rows=True):
        """Write release.json, which then agrees with all files that it names."""
        for name, facts in self.manifest["files"].items():
            path = self.folder / name
            if path.is_file():
                facts["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
                if rows and path.suffix == ".parquet":
                    facts["rows"] = pq.read_metadata(path).num_rows
        (self.folder / "release.json").write_text(json.dumps(resigned(self.manifest)), encoding="utf-8")


def resigned(manifest):
    """A manifest with the digest of what it says, if it has one."""
    said = {key: value for key, value in manifest.items() if key != "digest"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return said | {"digest": hashlib.sha256(text.encode()).hexdigest()} if "digest" in manifest else said
