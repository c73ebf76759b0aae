"""The United States at the 2010 Census: published numbers of the states, and synthetic shares of the counties."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

COUNTRY = "United States"
LEVELS = ("country", "state", "county")


class State(NamedTuple):
    """A state's published numbers for 2010.

    Attributes:
        name: with the District of Columbia and Puerto Rico, which count as states here.
        counties: and their equivalents. Puerto Rico counts as one: 3,143 counties and it are the papers' 3,144.
        people: resident population.
        blocks: census blocks; 11,155,486 in all, as in Kuo et al. 2018.
        percent_white: of the people (white alone), to 0.1.
        pacific_islanders: Native Hawaiian and other Pacific Islander alone; approximate.
    """

    name: str
    counties: int
    people: int
    blocks: int
    percent_white: float
    pacific_islanders: int


STATES = (
    State("Alabama", 67, 4_779_736, 252_266, 68.5, 3_057),
    State("Alaska", 29, 710_231, 45_292, 66.7, 7_409),
    State("Arizona", 15, 6_392_017, 241_666, 73.0, 12_648),
    State("Arkansas", 75, 2_915_918, 186_211, 77.0, 5_863),
    State("California", 58, 37_253_956, 710_145, 57.6, 144_386),
    State("Colorado", 64, 5_029_196, 201_062, 81.3, 6_623),
    State("Connecticut", 8, 3_574_097, 67_578, 77.6, 1_428),
    State("Delaware", 3, 897_934, 24_115, 68.9, 396),
    State("District of Columbia", 1, 601_723, 6_507, 38.5, 302),
    State("Florida", 67, 18_801_310, 484_481, 75.0, 12_286),
    State("Georgia", 159, 9_687_653, 291_086, 59.7, 6_799),
    State("Hawaii", 5, 1_360_301, 25_016, 24.7, 135_422),
    State("Idaho", 44, 1_567_582, 149_842, 89.1, 2_317),
    State("Illinois", 102, 12_830_632, 451_554, 71.5, 4_050),
    State("Indiana", 92, 6_483_802, 267_071, 84.3, 2_348),
    State("Iowa", 99, 3_046_355, 216_007, 91.3, 2_003),
    State("Kansas", 105, 2_853_118, 238_600, 83.8, 2_238),
    State("Kentucky", 120, 4_339_367, 161_672, 87.8, 2_501),
    State("Louisiana", 64, 4_533_372, 204_447, 62.6, 1_963),
    State("Maine", 16, 1_328_361, 69_518, 95.2, 342),
    State("Maryland", 24, 5_773_552, 145_247, 58.2, 3_157),
    State("Massachusetts", 14, 6_547_629, 157_508, 80.4, 2_223),
    State("Michigan", 83, 9_883_640, 329_885, 78.9, 2_604),
    State("Minnesota", 87, 5_303_925, 259_777, 85.3, 2_156),
    State("Mississippi", 82, 2_967_297, 171_778, 59.1, 1_187),
    State("Missouri", 115, 5_988_927, 343_565, 82.8, 6_261),
    State("Montana", 56, 989_415, 132_288, 89.4, 668),
    State("Nebraska", 93, 1_826_341, 193_352, 86.1, 1_279),
    State("Nevada", 17, 2_700_551, 84_538, 66.2, 16_871),
    State("New Hampshire", 10, 1_316_470, 48_837, 93.9, 384),
    State("New Jersey", 21, 8_791_894, 169_588, 68.6, 3_043),
    State("New Mexico", 33, 2_059_179, 168_609, 68.4, 1_810),
    State("New York", 62, 19_378_102, 350_169, 65.7, 8_766),
    State("North Carolina", 100, 9_535_483, 288_987, 68.5, 6_604),
    State("North Dakota", 53, 672_591, 133_769, 90.0, 320),
    State("Ohio", 88, 11_536_504, 365_344, 82.7, 4_066),
    State("Oklahoma", 77, 3_751_351, 269_118, 72.2, 4_369),
    State("Oregon", 36, 3_831_074, 196_621, 83.6, 13_404),
    State("Pennsylvania", 67, 12_702_379, 421_545, 81.9, 3_653),
    State("Rhode Island", 5, 1_052_567, 25_181, 81.4, 554),
    State("South Carolina", 46, 4_625_364, 181_908, 66.2, 2_706),
    State("South Dakota", 66, 814_180, 88_360, 85.9, 382),
    State("Tennessee", 95, 6_346_105, 240_116, 77.6, 3_642),
    State("Texas", 254, 25_145_561, 914_231, 70.4, 21_656),
    State("Utah", 29, 2_763_885, 115_406, 86.1, 24_554),
    State("Vermont", 14, 625_741, 32_580, 95.3, 160),
    State("Virginia", 134, 8_001_024, 285_762, 68.6, 5_980),
    State("Washington", 39, 6_724_540, 195_574, 77.3, 40_475),
    State("West Virginia", 55, 1_852_994, 135_218, 93.9, 485),
    State("Wisconsin", 72, 5_686_986, 253_096, 86.2, 1_827),
    State("Wyoming", 23, 563_626, 86_204, 90.7, 427),
    State("Puerto Rico", 1, 3_725_789, 77_189, 75.8, 370),
)


def numbers(field: str) -> npt.NDArray[np.float64]:
    """One field of every state: float (52,)."""
    return np.array([getattr(state, field) for state in STATES], dtype=np.float64)


def state_of_county() -> npt.NDArray[np.int64]:
    """The state's position in `STATES`, county by county: int64 (3144,)."""
    return np.repeat(np.arange(len(STATES)), [state.counties for state in STATES])


def county_paths() -> pa.Table:
    """One row per county. Counties are numbered within their state, so a county is identified by its path."""
    return pa.table(
        {
            "country": [COUNTRY] * sum(state.counties for state in STATES),
            "state": [state.name for state in STATES for _ in range(state.counties)],
            "county": [f"County {i + 1:03}" for state in STATES for i in range(state.counties)],
        }
    )


def county_shares(
    rng: np.random.Generator, of_state: npt.NDArray[np.float64], spread: float
) -> npt.NDArray[np.float64]:
    """Every county's share of the country: float (3144,), adding up to 1.

    Args:
        rng: draws.
        of_state: the states' shares, up to a factor.
        spread: σ of the log-normal shares of the counties in their state.
    """
    state = state_of_county()
    within = rng.lognormal(sigma=spread, size=len(state))
    share = of_state[state] * within / np.bincount(state, within)[state]
    return np.asarray(share / share.sum(), dtype=np.float64)
