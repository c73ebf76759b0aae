"""Every sentence with a number, in report, explorer and terminal, is true of data whose truth is known.

Five kinds of release of made-up data are made at four budgets, twice each, with fixed keys. Each sentence must be one
of `SENTENCES`, so a new one needs a check. What holds nine times in ten, or for nine numbers in ten, is counted over
all releases: it must hold as often as a share of 0.87 does with a probability of 99.9 %. So of 40 statements a share of
0.5 fails with a probability of 0.98, and of 1,000 numbers one of 0.8 with 0.99.
"""

import math
import re
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

import tallytree as tt
from helpers.inside import CountsArguments, entropy, expected_errors, plan_counts
from helpers.told import KINDS, TREE, sentences, texts
from tallytree.release.quality import STANDARD
from tallytree.release.remainders import unlisted_sentence
from tallytree.views.explore import columns
from tallytree.views.explore.columns import rows_of
from tallytree.views.report.reading import level_errors
from tallytree.views.report.wording import about, titled

pytestmark = [pytest.mark.slow, pytest.mark.needs("altair")]
EPSILONS = (0.1, 0.5, 1.0, 3.0)
LEAST, RARELY = 0.87, 1e-3
NUMBER = r"[\d,]+(?:\.\d+)?"


class Counted:
    """How often a statement held, of how many."""

    def __init__(self):
        self.held, self.of = Counter(), Counter()

    def add(self, name, held):
        held = np.atleast_1d(held)
        self.held[name] += int(held.sum())
        self.of[name] += len(held)

    def too_rare(self):
        """The statements that held too rarely."""
        least = {name: binom.ppf(RARELY, of, LEAST) for name, of in self.of.items()}
        return {name: (self.held[name], self.of[name]) for name in self.of if self.held[name] < least[name]}


def value(text):
    return float(text.replace(",", ""))


def level_of(made, title):
    return next(each["level"] for each in made.release.statement["levels"] if titled(each) == title)


def off(made, level):
    """How far off the numbers of a level are: of group sizes, the numbers of groups of a size or more."""
    rows = made.beside(level)
    if "tail_count" not in rows.columns:
        return (rows["count"] - rows["true"]).abs().to_numpy()
    return (rows["tail_count"] - rows["true"]).abs().to_numpy()


# Checks of a sentence: they get the release, its kind, the match and the counts.


def total(made, kind, found, counted):
    """The first number, with how far off it is."""
    number, error = found["number"], found["error"]
    if not error:
        return
    if error == "exactly":
        assert value(number) == made.total
        return
    ends = [value(each) for each in re.findall(NUMBER, error)]
    lower, upper = ends if len(ends) == 2 else (value(number) - ends[0], value(number) + ends[0])
    counted.add("the total", lower <= made.total <= upper)


def card(made, kind, found, counted):
    level = level_of(made, found["level"])
    reach = 0.0 if found["reach"] == "exact" else value(found["reach"].removeprefix("± "))
    counted.add(f"card, {kind}", off(made, level) <= reach)


def typical(made, kind, found, counted):
    """From the level with the smallest errors to that with the largest, which are named if they differ."""
    groups = found.groupdict()
    pairs = [("less", "at"), ("more", "to")] if groups.get("to") else [("less", "at")]
    for reach, at in pairs:
        if groups.get(at) is not None and groups[reach] != "less than ± 1":
            counted.add(f"typical, {kind}", off(made, level_of(made, groups[at])) <= value(groups[reach]))


def share_unlisted(made, kind, found, counted):
    """Of all records, in leaves without a row."""
    level = made.release.levels[-1]
    share = 1 - made.beside(level)["true"].sum() / made.total
    counted.add(f"at most so much is not listed, {kind}", share <= value(found["share"]) / 100)


def below(made, kind, found, counted):
    """Nine in ten leaves without a row."""
    level, paths = made.release.levels[-1], made.view.paths(made.release.levels[-1])
    listed = {tuple(each) for each in made.beside(level)[paths].to_numpy()}
    true = made.truth.groupby(paths)["count"].sum()
    hidden = np.array([number for labels, number in true.items() if labels not in listed])
    leaves = next(each["nodes"] for each in made.release.statement["levels"] if each["level"] == level) - len(listed)
    most = 1 if found["below"] == "0 in truth, too" else value(found["below"].removeprefix("below "))
    counted.add(f"nine in ten are below, {kind}", (hidden >= most).sum() <= 0.1 * leaves)


def do_not_use(made, kind, found, counted):
    """Numbers far below the least usable one are marked, and those far above are not."""
    level = level_of(made, found["level"])
    rows = made.release.table(level, alpha=0.1).to_pandas()
    if kind == "sizes":
        usable = rows["tail_count"] >= rows["tail_std_dev"] / STANDARD.with_care
        usable &= (rows["tail_ci_lower"] > 0) | (rows["tail_std_dev"] == 0)
        numbers = rows["tail_count"]
    else:
        usable, numbers = rows["quality"].isin(["exact", "reliable", "with_care"]), rows["count"]
    assert abs(100 * (~usable).mean() - value(found["share"])) <= 1
    if found["least"] is None:  # of tables
        return
    least = value(found["least"])
    clear = (numbers > 1.5 * least) | (numbers < least / 1.5)
    counted.add(f"those below about, {kind}", (usable == (numbers > least))[clear])


def attacker(made, kind, found, counted):
    rate = made.release.statement["risk"]["rates"][-1]
    assert [int(each) for each in re.findall(r"\d+", found["of"])][:1] == [math.ceil(100 * rate["true_positive_rate"])]


def numbers_there(made, kind, found, counted):
    assert value(found["numbers"]) == sum(made.view.rows(level) for level in made.view.levels)


def nodes(made, kind, found, counted):
    level = made.release.statement["levels"][-1]
    assert (value(found["nodes"]), found["level"]) == (level["nodes"], titled(level))


def ends(made, kind, found, counted):
    """Intervals of the largest numbers, which are drawn, and of all."""
    for level in made.release.levels:
        rows = made.beside(level)
        prefix = "" if "ci_lower" in rows.columns else "tail_"
        held = (rows[f"{prefix}ci_lower"] <= rows["true"]) & (rows["true"] <= rows[f"{prefix}ci_upper"])
        counted.add(f"ends, {kind}", held)
        if not prefix:
            counted.add(f"ends of the largest, {kind}", held[rows["count"].sort_values().index[-15:]])


def within_of_levels(made, kind, found, counted):
    """The column “nine in ten within” of every level."""
    for each in level_errors(made.view):
        words = about(each.reach)
        if words != "less than ± 1":
            counted.add(
                f"within, {kind}", off(made, level_of(made, each.level)) <= value(words.removeprefix("about ± "))
            )


def largest(made, kind, found, counted):
    """The largest number of a picture is the largest of a level; of sizes it may be of all groups of an area."""
    tops = set()
    for level in made.view.levels:
        rows, paths = made.release.table(level).to_pandas(), made.view.paths(level)
        column = "groups" if kind == "sizes" else "count"
        tops |= {rows[column].max()} | ({rows.groupby(paths)[column].sum().max()} if paths else set())
    assert value(found["number"]) in tops


def fixed(made, kind, found, counted):
    """No number that a truth is beside: shares of verdicts, the guarantee, the plan, the software."""


UNIT = "(?:records|trips|groups)"
FIXED = (
    r"You can use (?:the|nearly all) numbers of \d tables? of \d\.",
    r"What is exact\? \d facts?\. .*",
    r".+: \d+ % (?:reliable|with care|do not use).*",
    rf"use from about {NUMBER} {UNIT}",
    rf".* finds it out in at most {NUMBER} % of the cases; guessing blindly would find it out in .*",
    r"An attacker who knows all other records has at most .*",
    r"Cases of 100 that are found out|of 100",
    r"Counts at .* are mostly noise: \d+% of what is counted .*",
    r"Noise: discrete Laplace, std dev .*",
    r"(?:Guarantee|Formally|Spent|Of a budget of|Spends|Release id|Made with|Differentially private release).*",
    r"Epsilon \(ε\) bounds .*|Zero would mean no influence.*",
    r".* nobody has more than \d (?:records?|trips?|memberships? of a group)\b.*",
    r"By typical error ÷ number, .*|.*are off by more: take the reliable ones there\.",
    r".*(?:known to be|published as) 0\b.*",
    r"\d facts? of this release (?:is|are) exact\.|\d+ checks were run .*",
    rf"{NUMBER} of {NUMBER} rows; the files have all\.|.*: the 15 largest of {NUMBER}.*",
    r"(?:LeastSquares|Remainders|Joint) \(.*\)",
    r"(?:The tree from the top|The typical error of the numbers): .*",
    rf"Groups of a size or more, .* {NUMBER} groups have \d+ members or more\.",
    r"The shares of the levels were chosen .*|Sizes are clamped .*|tail_counts: .*|Groups with members are counted.*",
    r"90 %",
)


def why(made, kind, found, counted):
    measured = [each for each in made.release.statement["levels"] if each["measured"]]
    assert int(found["shared"]) == len(measured)
    assert float(found["epsilon"]) == made.release.statement["budget"]["epsilon"]


SENTENCES = {
    r"How much follows from the budget of the release, ε = (?P<epsilon>[\d.]+)\. (?P<shared>\d+) (?:level|table)s "
    r"share it: a larger budget, or fewer (?:level|table)s, would mean less noise\.": why,
    rf"(?P<number>{NUMBER}) {UNIT} ?(?P<error>.*)": total,
    rf"How many .* down to (?P<nodes>{NUMBER}) (?:pairs of )?areas at (?P<level>.+)\.": nodes,
    r"At (?P<level>.+) do not use (?P<share>\d+) % of the numbers(?:: those below about "
    rf"(?P<least>{NUMBER}) {UNIT})?\.": do_not_use,
    rf"How far off\? (?P<reach>exact|± {NUMBER}) ?{UNIT}?\. Nine in ten numbers(?: of a size or more)? at "
    r"(?P<level>.+) are within this of the truth\.": card,
    rf"How much is there\? (?P<numbers>{NUMBER}) numbers\. In \d (?:level|table)s\. .*": numbers_there,
    rf"This release publishes .*: (?P<numbers>{NUMBER}) numbers in \d (?:level|table)s\.": numbers_there,
    rf"The finest level, (?P<level>.+), has (?P<nodes>{NUMBER}) (?:pairs of )?areas\.": nodes,
    r"Who is protected\? .* finds out one in at most (?P<of>\d+ of 100 cases; a guess does in \d+)\.": attacker,
    r"Of 100 cases an attacker who knows all other records finds out (?P<of>\d+ at most, with \d+) .*": attacker,
    rf"Nine in ten numbers are within (?:about ± )?(?P<less>less than ± 1|{NUMBER}) \(at (?P<at>.+?)\)(?: to about ± "
    rf"(?P<more>{NUMBER}) \(at (?P<to>.+?)\))? {UNIT} of the truth\..*": typical,
    rf"Nine in ten numbers are within about ± {NUMBER} {UNIT} of the truth\..*": within_of_levels,
    r"nine in ten within|nine in ten numbers are within": within_of_levels,
    r"Ends of intervals hold the true number nine times in ten\.": ends,
    r"The ends hold the true number nine times in ten\.": ends,
    r".*with the band that holds the true number nine times in ten": ends,
    r"By an estimate, nine in ten of those at the finest level are "
    rf"(?P<below>below {NUMBER}|0 in truth, too); .*": below,
    r"(?:There|At the finest level) at most (?P<share>\d+) % of all records are in cells without a row, nine times in "
    r"ten.*": share_unlisted,
    rf"The largest (?:number )?is (?:.* with )?(?P<number>{NUMBER})(?:, for .*| {UNIT})\.": largest,
    rf"Most groups, (?P<number>{NUMBER}), have size \d+\.": largest,
    **dict.fromkeys(FIXED, fixed),
}
"""Every sentence with a number, as a pattern, and what checks it."""


@pytest.fixture(scope="module")
def releases():
    """One of each kind, budget and key."""
    made = []
    with pytest.MonkeyPatch.context() as patched:
        for number in range(2 * len(EPSILONS)):
            patched.setattr(entropy, "fresh_key", lambda number=number: bytes([number] * 32))
            made += [(kind, make(number, EPSILONS[number % 4])) for kind, make in KINDS.items()]
    return made


def test_every_sentence_with_a_number_is_true(releases):
    counted, seen, unknown = Counted(), Counter(), set()
    for kind, made in releases:
        for sentence, place in {sentence: place for place, sentence in sentences(texts(made))}.items():
            pattern = next((each for each in SENTENCES if re.fullmatch(each, sentence, re.DOTALL)), None)
            if pattern is None:
                unknown.add((place, sentence))
                continue
            seen[pattern] += 1
            SENTENCES[pattern](made, kind, re.fullmatch(pattern, sentence, re.DOTALL), counted)
    assert unknown == set()
    assert {*SENTENCES} - {*seen} == set()
    assert {*KINDS} <= {name.rpartition(", ")[2] for name in counted.of}
    assert counted.too_rare() == {}


def test_what_is_said_of_listed_cells_of_cells_without_a_row_and_of_zeros_is_true():
    """Of 48 releases of flows. A bound that fails in half of those of a kind is seen with a probability of 0.85."""
    counted, chances = Counted(), []
    for number in range(48):
        kind, epsilon = ("flows", "remainder")[number % 2], EPSILONS[number // 2 % 4]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(entropy, "fresh_key", lambda number=number: bytes([100 + number] * 32))
            made = KINDS[kind](100 + number, epsilon)
        finest = level_errors(made.view)[-1]  # of which the card speaks
        counted.add(f"reach, {kind}, ε = {epsilon}", off(made, made.release.levels[-1]) <= math.ceil(finest.reach))
        said = unlisted_sentence(made.release.statement)
        for pattern, check in (
            (r"at most (?P<share>\d+) %", share_unlisted),
            (rf"are (?P<below>below {NUMBER}|0)", below),
        ):
            for found in re.finditer(pattern, said.replace("0 in truth, too", "below 1")):
                check(made, kind, found, counted)
        for level in made.release.levels[3:]:
            rows = made.beside(level)
            if "probability_zero" in rows:
                known = rows.dropna(subset="probability_zero")
                chances += [*zip(known["probability_zero"], known["true"] == 0, strict=True)]
    assert counted.too_rare() == {}
    stated, zero = map(np.array, zip(*chances, strict=True))
    for low, high in ((0, 0.001), (0.001, 0.01), (0.01, 0.05), (0.05, 0.1), (0.1, 0.3), (0.3, 0.5)):
        here = (stated >= low) & (stated < high)
        assert here.sum() > 50
        # Not more often than is stated, but for a quarter of it and what chance does once in a thousand times.
        assert zero[here].sum() <= binom.ppf(1 - RARELY, here.sum(), 1.25 * stated[here].mean()) + 1, (low, high)
    assert zero[stated < 0.5].sum() >= 0.6 * stated[stated < 0.5].sum()


def test_the_accuracy_that_check_shows_holds_for_numbers_that_are_not_near_0(releases):
    """“Nine of ten numbers that are not near 0 will be off by less than the accuracy.”"""
    counted = Counted()
    for number, (kind, made) in enumerate(releases):
        if kind != "counts":
            continue
        budget = tt.Budget(epsilon=EPSILONS[number // len(KINDS) % 4])
        arguments = CountsArguments(records=made.truth, hierarchy=TREE, budget=budget, neighboring="add_remove")
        for each in expected_errors(plan_counts(arguments)):
            rows = made.beside(each.level)
            far = rows[rows["true"] > 3 * each.half_width]
            accuracy = value(re.search(NUMBER, about(each.half_width))[0])
            counted.add("accuracy", (far["count"] - far["true"]).abs() <= accuracy)
    assert counted.of["accuracy"] > 250
    assert counted.too_rare() == {}


def test_shares_of_the_explorer_hold_nine_times_in_ten(releases):
    counted = Counted()
    for kind, made in releases:
        for table in made.view.tables if kind in ("counts", "tables") else ():
            part = rows_of(made.view, table)
            if "share" not in part:
                continue
            true, larger = made.beside(table.level), columns._larger(made.view, table)[0]
            paths = [*TREE.columns[: TREE.columns.index(larger[0]) + 1]] if {*larger} & {*TREE.columns} else []
            whole = made.true(paths)
            shares = true["true"] / np.array([whole(tuple(each)) for each in true[paths].to_numpy()])
            lower, upper = (np.array(part[end], dtype=float) for end in ("share_lower", "share_upper"))
            known = np.isfinite(lower) & np.isfinite(upper) & np.isfinite(shares)
            counted.add(f"shares, {kind}", ((lower <= shares + 1e-5) & (shares <= upper + 1e-5))[known])
    assert {*counted.of} == {"shares, counts", "shares, tables"}
    assert counted.too_rare() == {}
