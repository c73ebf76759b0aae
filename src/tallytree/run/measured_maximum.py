"""The largest size measured, where it is private: the one thing that is known of it afterwards is a noisy value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from tallytree.accounting import NoisePlan
from tallytree.private import Measurer, NoiseSource, SizesInFiles, TrueSizes
from tallytree.sizes import SizesDomain
from tallytree.sizes.private_maximum import largest_published


def within_measured_maximum(
    domain: SizesDomain, true: TrueSizes | SizesInFiles, plan: NoisePlan, source: NoiseSource
) -> tuple[SizesDomain, TrueSizes | SizesInFiles, Mapping[str, Any]]:
    """The domain and the statistics with sizes clamped to K, and what a statement says of K.

    K is a function of the noisy maximum and of public facts; the true maximum is seen by a measurer of its own and by
    nothing else. That measurer has the plan's source, in which the largest size has an address of its own. What it
    holds and what the levels' measurer holds have no statistic in common: the largest size measured once more, after
    clamping, would have the same noise on another value and so give it away.

    Args:
        domain: the public facts; its `largest` is what K is at most.
        true: the statistics with sizes clamped to that, from which (all of them) the source's key is derived. So with
            this key only one K can come out, and statistics clamped to that one.
        plan: has the noise of the maximum.
        source: the noise.
    """
    if plan.maximum is None:
        return domain, true, {}
    measurer = Measurer(true.largest_size(), plan, source)
    measured = measurer.measure(plan.maximum.level, np.zeros(1, dtype=np.int64), "largest_size")
    largest = int(largest_published(measured.values, measured.noise, domain.smallest, domain.largest)[0])
    facts = {"noisy": int(measured.values[0]), "max_group_size": largest}
    return dataclasses.replace(domain, largest=largest), true.clamped(largest), facts
