"""Synthetic diagnoses by disease, sex and age: a tree of several attributes, as in InfTDA's example of health data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

DISEASES: dict[str, tuple[str, ...]] = {
    "infections": ("influenza", "tuberculosis", "viral hepatitis", "Lyme disease", "measles"),
    "neoplasms": ("breast cancer", "lung cancer", "prostate cancer", "melanoma", "leukaemia"),
    "endocrine": ("type 1 diabetes", "type 2 diabetes", "hypothyroidism", "obesity"),
    "mental": ("depression", "anxiety", "dementia", "schizophrenia"),
    "circulatory": ("hypertension", "heart failure", "stroke", "atrial fibrillation", "angina"),
    "respiratory": ("asthma", "chronic bronchitis", "pneumonia"),
    "musculoskeletal": ("back pain", "arthrosis", "rheumatoid arthritis", "osteoporosis"),
}
"""The diseases of every chapter; the chapters are like those of the International Classification of Diseases."""

SEXES = ("female", "male")

AGES: dict[str, tuple[str, ...]] = {
    "children": ("0-4", "5-9", "10-14", "15-19"),
    "adults": ("20-29", "30-39", "40-49", "50-59"),
    "older": ("60-69", "70-79", "80+"),
}
"""The age bands of every group."""


@dataclass(frozen=True)
class Health:
    """Synthetic diagnoses, and the public trees of their attributes.

    Attributes:
        records: one row per patient: `chapter`, `disease`, `sex`, `age_group` and `age_band` (strings). It would
            be private if it were real.
        diseases: one row per disease: `chapter`, `disease`. Public.
        sexes: one row per sex: `sex`. Public.
        ages: one row per age band: `group`, `band`. Public.
    """

    records: pa.Table
    diseases: pa.Table
    sexes: pa.Table
    ages: pa.Table


def health(n_records: int = 20_000, *, seed: int = 2025) -> Health:
    """Generate diagnoses whose frequencies depend on disease, sex and age.

    Distributions:

    * **Diseases**: log-normal frequencies (σ = 1.2).
    * **Sex**: the share of women is Beta(4, 4), by disease.
    * **Age**: the bands' weights are a normal density of the band's position, 0 … 10, with a mean uniform on 1 … 10 and
      a standard deviation uniform on 1 … 3, by disease. Many cells of rare diseases stay empty.
    * **Records**: one multinomial draw of `n_records` over all cells, in random order.

    Args:
        n_records: how many rows.
        seed: of the data. Equal arguments give equal tables.

    Returns:
        The records and the public trees.
    """
    rng = np.random.default_rng(seed)
    diseases = _leaves(DISEASES, "chapter", "disease")
    ages = _leaves(AGES, "group", "band")
    n, bands = diseases.num_rows, ages.num_rows
    women = rng.beta(4, 4, size=n)
    mean, spread = rng.uniform(1, 10, size=(n, 1)), rng.uniform(1, 3, size=(n, 1))
    by_age = np.exp(-(((np.arange(bands) - mean) / spread) ** 2) / 2)
    by_age /= by_age.sum(axis=1, keepdims=True)
    frequency = rng.lognormal(sigma=1.2, size=n)
    weight = frequency[:, None, None] * np.stack([women, 1 - women], axis=1)[:, :, None] * by_age[:, None, :]
    cells = rng.multinomial(n_records, (weight / weight.sum()).ravel())
    cell = rng.permutation(np.repeat(np.arange(len(cells)), cells))
    disease, sex, age = (pa.array(part) for part in np.unravel_index(cell, weight.shape))
    records = pa.table(
        {
            "chapter": diseases["chapter"].take(disease),
            "disease": diseases["disease"].take(disease),
            "sex": pa.array(SEXES).take(sex),
            "age_group": ages["group"].take(age),
            "age_band": ages["band"].take(age),
        }
    )
    return Health(records, diseases, pa.table({"sex": SEXES}), ages)


def _leaves(tree: dict[str, tuple[str, ...]], upper: str, lower: str) -> pa.Table:
    pairs = [(above, below) for above, names in tree.items() for below in names]
    return pa.table({upper: [above for above, _ in pairs], lower: [below for _, below in pairs]})
