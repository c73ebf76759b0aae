"""Replays: neighboring data sets are released with the same noisy answers, and all that is shown is compared."""

from tallytree.lab.replay.replaying import DEFAULT_PAIRS, Replay, replay

__all__ = ["DEFAULT_PAIRS", "Replay", "replay"]
