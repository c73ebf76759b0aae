"""Write docs/reference/real-data.md from the results of `real_data.py`: python benchmarks/real_data_page.py."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from real_data import CLASSES, JUDGED, MEASURED, RESULTS, Row, case_of, fails, shown

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "real-data.md"
EPSILONS = (0.1, 1.0, 10.0)
WORST = 12
"""Rows of a list that begins with the worst."""


def page(rows: Sequence[Row]) -> str:
    """The page."""
    judged = [row for row in rows if "coverage" in row and row["cells"] * row["runs"] >= JUDGED]
    whole = [row for row in rows if "ratio" in row and row["class"] == "all"]
    large = [row for row in whole if row["cells"] * row["runs"] >= 5 * JUDGED]
    classes = [row for row in judged if row["class"] != "all"]
    tables = [row for row in classes if row["statistic"] == "tables"]
    false = [row for row in judged if "coverage" in fails(row)]
    text = [
        "# Real data",
        "",
        "What releases state, held against data that nobody here generated (`residents` is made up, for comparison).",
        "The packages install by name; `benchmarks/real_sets.py` says how. Metrics are those that the Census Bureau",
        "publishes: mean absolute error (MAE), mean error (bias), root mean square error (RMSE), by size of the true",
        "number. LS is least squares without constraints on the same noise. Budgets are (ε, δ = 1e-8), for group sizes",
        "ε alone. Five runs each, of counts 20, of storms and baseball 8.",
        "",
        "```text",
        "python benchmarks/real_data.py         # measures; half an hour",
        "python benchmarks/real_data_page.py    # writes this page",
        "```",
        "",
        "An interval of 90 % is judged to hold if it covers at least 87 % of the cells of a class, less two standard",
        f"errors over the runs. Classes have {JUDGED} cells times runs or more. A table is judged to be as accurate as",
        "least squares if its RMSE is at most 1.1 times that of LS (with fewer than 500 cells times runs, less two",
        "standard errors).",
        "",
        "| statistic | judged tables, levels and classes | intervals that do not hold | tables above 1.1 LS |",
        "| --- | --- | --- | --- |",
        *_verdicts(judged, whole),
        "",
        *_listed("## Intervals that do not hold", false, "All intervals that were judged hold."),
        *_listed(
            "## Tables that err more than 1.1 times least squares",
            [row for row in whole if "error" in fails(row)],
            "No table errs more.",
        ),
        "## Worst first: the error of tables beside least squares",
        "",
        "Of tables with 500 cells times runs or more.",
        "",
        *_grid(sorted(large, key=lambda row: -row["ratio"])[:WORST]),
        "",
        "## Worst first: the coverage of a class",
        "",
        *_grid(sorted(classes, key=lambda row: row["coverage"] + 2 * row["coverage_error"])[:WORST]),
        "",
        "## Tables by size of the true number, ε = 1",
        "",
        f"All tables of all cases. {sum(row['coverage'] > 0.93 for row in tables)} of {len(tables)} classes, at all",
        "budgets, are covered by more than 93 %, most of them cells whose true number is 0 or small: an interval that",
        "is cut at 0 misses on one side only. Width is that of the intervals beside 3.29 `std_dev`.",
        "",
        "| true number | classes | coverage, mean | least | mean width | bias, mean of absolute | largest, ÷ stated |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *_by_size([row for row in tables if row["epsilon"] == 1]),
        "",
        "## Flows",
        "",
        "Flights between airports, storms between cells of a grid, players between teams. Relative L1 is",
        "Σ|published − true| / Σ true over all pairs; publishing zeros has 1.",
        '`default` is that of `release_flows` (`LeastSquares(sparsity="auto")`), `zero` is `LeastSquares()`,',
        '`remainder` is `unlisted="remainder"`. Of listed cells: how many there are, how many of their 90 % intervals',
        "hold, the least of a class of true numbers, and the mean width beside 3.29 `std_dev`. Totals are those of",
        "`release.total` over areas that are chosen at random; their MAE beside the width says how wide intervals are.",
        "",
        "| data | ε | option | level | pairs | MAE | bias | relative L1 | listed | held | least class | width |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *_flows([row for row in rows if row["statistic"] == "flows"]),
        "",
        "The probability of being 0 (`probability_zero`) of listed pairs of airports, all data and both options that",
        "state it: the share of them that are 0.",
        "",
        "| probability | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " |",
        "| --- |" + " --- |" * len(EPSILONS),
        *_chances([row for row in rows if "chances" in row and row["table"].startswith("origin_airport")]),
        "",
        "## Every case",
        "",
        "The largest and the mean over tables or levels, small ones too. Of group sizes each option is measured on the",
        "sizes that it lists itself, so their errors are not of the same numbers.",
        "",
        "| statistic | data | ε | option | MAE, largest | RMSE ÷ LS, largest | mean | coverage, least | mean |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *_cases([row for row in rows if row["class"] == "all"]),
        "",
    ]
    return "\n".join(text)


def _verdicts(judged: Sequence[Row], whole: Sequence[Row]) -> Iterator[str]:
    for statistic in MEASURED:
        own = [row for row in judged if row["statistic"] == statistic]
        if own:
            false = sum("coverage" in fails(row) for row in own)
            more = [row for row in whole if row["statistic"] == statistic]
            errs = f"{sum('error' in fails(row) for row in more)} of {len(more)}" if more else "-"
            yield f"| {statistic} | {len(own):,} | {false} | {errs} |"


def _listed(title: str, rows: Sequence[Row], none: str) -> list[str]:
    return [title, "", *(_grid(rows) if rows else [none]), ""]


def _grid(rows: Sequence[Row]) -> list[str]:
    head = [
        "| data | ε | option | table | true number | cells | MAE | bias | RMSE ÷ stated | RMSE ÷ LS | coverage |",
        "|" + " --- |" * 11,
    ]
    return [
        *head,
        *(
            f"| {row['data']} | {row['epsilon']:g} | {row['option']} | {row['table']} | {row['class']} | "
            f"{row['cells']:,} | {row['mae']:,} | {row['bias']:+,} | {row['rmse'] / max(row['stated'], 1e-9):.2f} | "
            f"{row.get('ratio', '-')} | {row['coverage']:.3f} ± {row['coverage_error']:.3f} |"
            for row in rows
        ),
    ]


def _by_size(rows: Sequence[Row]) -> Iterator[str]:
    for low, high in CLASSES:
        own = [row for row in rows if row["class"] == shown(low, high)]
        if own:
            covered, width = [row["coverage"] for row in own], np.mean([row["width"] for row in own])
            bias = [abs(row["bias"]) for row in own]
            relative = max(abs(row["bias"]) / max(row["stated"], 1e-9) for row in own)
            yield (
                f"| {shown(low, high)} | {len(own)} | {np.mean(covered):.3f} | {min(covered):.3f} | {width:.2f} | "
                f"{np.mean(bias):.2f} | {relative:.2f} |"
            )


def _flows(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row["class"] != "all" or row["table"].endswith(", listed"):
            continue
        same = [each for each in rows if case_of(each) == case_of(row)]
        own = [each for each in same if each["table"] == f"{row['table']}, listed"]
        own = own or [each for each in same if each["table"] == row["table"] and "coverage" in each]
        whole = next(each for each in own if each["class"] == "all")
        classes = [each["coverage"] for each in own if each["class"] != "all"]
        yield (
            f"| {row['data']} | {row['epsilon']:g} | {row['option']} | {row['table']} | {row['cells']:,} | "
            f"{row['mae']:,} | {row['bias']:+,} | {row['relative']} | {whole['cells']:,} | {whole['coverage']:.3f} | "
            f"{f'{min(classes):.3f}' if classes else '-'} | {whole['width']} |"
        )


def _chances(rows: Sequence[Row]) -> Iterator[str]:
    ranges = sorted({(low, high) for row in rows for low, high, _, _ in row["chances"]})
    for low, high in ranges:
        cells = []
        for epsilon in EPSILONS:
            own = [each for row in rows if row["epsilon"] == epsilon for each in row["chances"] if each[0] == low]
            number = sum(each[2] for each in own)
            cells.append(f"{sum(each[2] * each[3] for each in own) / number:.3f} ({number:,})" if number else "-")
        yield f"| {low:g}–{high:g} | {' | '.join(cells)} |"


def _cases(rows: Sequence[Row]) -> Iterator[str]:
    for case in dict.fromkeys(map(case_of, rows)):
        own = [row for row in rows if case_of(row) == case]
        ratios = [row["ratio"] for row in own if "ratio" in row]
        covered = [row["coverage"] for row in own if "coverage" in row and row["cells"] * row["runs"] >= JUDGED]
        yield " | ".join(
            [
                f"| {case[0]} | {case[1]} | {case[2]:g} | {case[3]} | {max(row['mae'] for row in own):,}",
                f"{max(ratios):.2f} | {np.mean(ratios):.2f}" if ratios else "- | -",
                (f"{min(covered):.3f} | {np.mean(covered):.3f}" if covered else "- | -") + " |",
            ]
        )


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
