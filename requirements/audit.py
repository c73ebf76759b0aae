"""`make lint`: known vulnerabilities of the packages in the lock, from OSV's data, where these can be reached."""

import subprocess
import sys
import urllib.request
from pathlib import Path

OSV = "https://api.osv.dev/v1/query"
SECONDS = 5


def reached(url: str) -> bool:
    """Whether the server answers a query."""
    query = b'{"package": {"name": "numpy", "ecosystem": "PyPI"}, "version": "2.0.0"}'
    try:
        with urllib.request.urlopen(urllib.request.Request(url, query), timeout=SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:  # no name, no route, no answer in time, or the answer of a proxy
        return False


def main(lock: str, url: str = OSV) -> int:
    """The exit code: 0 where nothing is known, or the data cannot be reached."""
    if not reached(url):
        print(f"pip-audit: {url} was not reached, so {lock} was not compared with known vulnerabilities.")
        return 0
    command = [Path(sys.executable).parent / "pip-audit", "--requirement", lock, "--require-hashes", "--disable-pip"]
    options = ["--vulnerability-service", "osv", "--osv-url", url, "--progress-spinner", "off"]
    return subprocess.run([*command, *options], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
