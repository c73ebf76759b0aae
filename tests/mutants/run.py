"""`make mutants`: plant each fault in a copy of the sources, and see whether its check catches it.

Usage: python tests/mutants/run.py [WORD ...]; with words, only the faults whose name or check has one.

First all checks run once without a fault, and must pass. Then every fault is planted, and its check runs with
PYTHONPATH at the copy. It is caught if tests fail (pytest's exit code 1), or if the command of `tallytree` exits with
1. Any other exit code is an error of the list, such as a test that does not exist any more. Exit code 1 if a fault
escapes, or at such an error.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutants.mutant import SOURCE, Mutant, mutated, sources
from mutants.planted import MUTANTS

REPOSITORY = SOURCE.parents[1]
AT_ONCE = 2
LONGEST = 1_200
"""Seconds that a check may take with a fault planted: code that is wrong need not come to an end."""


@dataclass
class Copy:
    """A copy of the sources, in which one fault after the other is planted.

    Attributes:
        folder: holds `src`, and all else that checks leave behind.
        tries: how many faults were planted in it.
    """

    folder: Path
    tries: int = 0

    def outcome(self, check: str, mutant: Mutant | None = None) -> tuple[int, str]:
        """The exit code of a check, and what it printed; with a fault planted, if one is given."""
        package = self.folder / "src" / "tallytree"
        original = sources(package)
        changed = {} if mutant is None else mutated(mutant, original)
        self.tries += 1
        try:
            for path, text in changed.items():
                before = path.stat().st_mtime
                path.write_text(text, encoding="utf-8")
                os.utime(path, (before + self.tries, before + self.tries))  # Python compiles it anew
            # Numba compares no more than the sources that have kernels: others keep what is compiled.
            kernels = any("import kernel" in text for text in changed.values())
            place = self.folder / f"kernels{self.tries if kernels else ''}"
            return self._run(check, place, None if mutant is None else LONGEST)
        finally:
            for path in changed:
                shutil.copy2(SOURCE / path.relative_to(package), path)

    def _run(self, check: str, compiled: Path, limit: float | None) -> tuple[int, str]:
        compiled.mkdir(mode=0o700, exist_ok=True)
        environment = os.environ | {
            "PYTHONPATH": str(self.folder / "src"),
            "NUMBA_CACHE_DIR": str(compiled),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.folder / "hypothesis"),
            "TALLYTREE_CACHE_DIR": "",
        }
        environment.pop("TALLYTREE_TEST_INSTALLED", None)
        arguments = shlex.split(check)
        module = ["tallytree", *arguments[1:]] if arguments[0] == "tallytree" else ["pytest", *PYTEST, *arguments]
        try:
            done = subprocess.run(
                [sys.executable, "-m", *module],
                cwd=REPOSITORY,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return -1, f"longer than {limit} s"
        return done.returncode, done.stdout


PYTEST = ("-q", "-x", "-p", "no:cacheprovider", "--tb=line")


def copies(folder: Path) -> SimpleQueue[Copy]:
    """As many copies of the sources as are used at once."""
    made: SimpleQueue[Copy] = SimpleQueue()
    for number in range(AT_ONCE):
        place = folder / str(number)
        shutil.copytree(SOURCE, place / "src" / "tallytree", ignore=shutil.ignore_patterns("__pycache__"))
        made.put(Copy(place))
    return made


def say(text: str) -> None:
    """A line of the table, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(words: list[str]) -> int:
    """Try the faults; print a table; the exit code."""
    chosen = [each for each in MUTANTS if not words or any(word in f"{each.name} {each.check}" for word in words)]
    texts = sources()
    for mutant in chosen:
        mutated(mutant, texts)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = copies(Path(folder))

        def run(check: str, mutant: Mutant | None = None) -> tuple[int, str, float]:
            copy, start = waiting.get(), time.monotonic()
            try:
                return *copy.outcome(check, mutant), time.monotonic() - start
            finally:
                waiting.put(copy)

        checks = {mutant.check for mutant in chosen}
        commands = sorted(check for check in checks if check.startswith("tallytree "))
        tests = " ".join(dict.fromkeys(" ".join(sorted(checks - {*commands})).split(" ")))
        for code, said, seconds in pool.map(run, [*([tests] if tests else []), *commands]):
            if code:
                say(said)
                say("A check fails without a fault, or does not exist.")
                return 1
            say(f"without a fault: passed, {seconds:.0f} s")
        wrong = 0
        width = max(len(mutant.name) for mutant in chosen)
        for mutant, (code, said, seconds) in zip(
            chosen, pool.map(lambda mutant: run(mutant.check, mutant), chosen), strict=True
        ):
            verdict = {0: "ESCAPED", 1: "caught"}.get(code, f"ERROR ({code})")
            say(f"{mutant.name:{width}}  {verdict:8} {seconds:4.0f} s  {mutant.check}")
            if code != 1:
                wrong += 1
                say(said)
            elif os.environ.get("MUTANTS_VERBOSE"):
                say("    " + next((line for line in said.splitlines() if line.startswith(("FAILED", "/"))), ""))
        say(f"{len(chosen) - wrong} of {len(chosen)} planted faults are caught")
        return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
