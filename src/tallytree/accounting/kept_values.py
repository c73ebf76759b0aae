"""Numbers of privacy-loss distributions that were computed before, kept on the disk for the next process.

Importing `dp-accounting`, with the parts of SciPy that it needs, takes 1.5 to 4 s, and a plan a tenth of that. A number
is found again by all that decides it: the composition, the question, and the versions of everything that computes it.
A wrong number could understate a privacy loss. So

* the file of a composition says in full what it is about, and has a digest; where either does not agree it is not used;
* a folder or a file that somebody else can write to is not used (as of compiled code, `support.trusted_folders`);
* `pld` uses no δ that is below nine tenths of that of the continuous Gaussian mechanism with the same ρ;
* a release that a ledger is charged for computes the loss of its plan itself (`NoisePlan.check_without_kept`).

The folder is `accounting` in that named by the environment variable `TALLYTREE_CACHE_DIR`; by default `tallytree` in
`XDG_CACHE_HOME`, or in `~/.cache`. If the variable is empty, nothing is kept. What is kept follows from plans, which
are public; it knows nothing of records. See `docs/decisions/0033-seconds.md`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tallytree.support.trusted_folders import why_untrusted
from tallytree.support.whole_files import write_whole

logger = logging.getLogger(__name__)

MAX_FILES = 2_000
"""When there are more, the older half is removed."""
_MAX_BYTES = 2**20
_LIBRARIES = ("dp-accounting", "numpy", "scipy")


class KeptValues:
    """The numbers of one composition, by question.

    Args:
        about: the composition, as text that no other composition has.
        source: the file with the code that asks; other code has its own numbers.
    """

    def __init__(self, about: str, source: Path) -> None:
        self._about = json.dumps([about, *_computed_by(source)])
        self._folder = _folder(os.environ.get("TALLYTREE_CACHE_DIR"))
        self._values = {} if self._folder is None else self._read(self._folder)
        self._new = False

    def get(self, question: str) -> float | None:
        """The answer, if it is kept."""
        return self._values.get(question)

    def put(self, question: str, answer: float) -> None:
        """Keep an answer; `save` writes it."""
        if math.isfinite(answer):
            self._values[question] = answer
            self._new = True

    def save(self) -> None:
        """Write what is new, all or nothing; a disk that is full, or a folder that is gone, is no error."""
        if self._folder is None or not self._new:
            return
        self._new = False
        text = self._text({question: answer.hex() for question, answer in self._values.items()})
        try:
            _make_room(self._folder)
            write_whole(self._path(self._folder), text, mode=0o600)
        except OSError as error:
            logger.info("what was computed of a plan is not kept: %s", error.strerror)

    def _path(self, folder: Path) -> Path:
        return folder / f"{hashlib.sha256(self._about.encode()).hexdigest()[:40]}.json"

    def _text(self, answers: dict[str, str]) -> str:
        digest = hashlib.sha256(json.dumps([self._about, answers], sort_keys=True).encode()).hexdigest()
        return json.dumps({"about": self._about, "answers": answers, "sha256": digest})

    def _read(self, folder: Path) -> dict[str, float]:
        """What the file has, if it is this composition's and whole; else nothing."""
        try:
            with self._path(folder).open("rb") as file:
                text = file.read(_MAX_BYTES).decode("ascii")
            answers = json.loads(text)["answers"]
            if self._text(answers) == text:
                return {question: float.fromhex(answer) for question, answer in answers.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if not isinstance(error, FileNotFoundError):
                logger.info("what was computed of a plan before cannot be read, and is computed again")
        return {}


def kept_in() -> str:
    """The folder, as text for a message."""
    folder = _folder(os.environ.get("TALLYTREE_CACHE_DIR"))
    return "in no folder" if folder is None else repr(str(folder))


@cache
def _computed_by(source: Path) -> tuple[str, ...]:
    """All that the last bits of a number may depend on, beside the question."""
    versions = (f"{name} {version(name)}" for name in _LIBRARIES)
    return hashlib.sha256(source.read_bytes()).hexdigest(), platform.machine(), *versions


@cache
def _folder(named: str | None) -> Path | None:
    """Where numbers are kept; None where they cannot be, or where somebody else could change them."""
    if named == "":
        return None
    try:
        above = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tallytree"
        folder = above.absolute() / "accounting"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a home that cannot be found is a RuntimeError
        logger.info("there is no folder to keep what is computed of a plan; TALLYTREE_CACHE_DIR names one")
        return None
    fault = why_untrusted(folder, (".json",))
    if fault is not None:
        logger.info("what was computed of plans is neither read nor kept, because %s", fault)
    return folder if fault is None else None


def _make_room(folder: Path) -> None:
    """Remove the older half of the files, once there are too many."""
    files = [*folder.glob("*.json")]
    if len(files) >= MAX_FILES:
        for path in sorted(files, key=lambda path: path.stat().st_mtime)[: MAX_FILES // 2]:
            path.unlink(missing_ok=True)
