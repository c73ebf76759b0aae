"""The program of the child process that draws: a request a line of standard input, an answer a line of standard output.

It is run as a file, and imports nothing of tallytree, so that it starts at once.
`tallytree.views.charts.drawing` starts it.
"""

from __future__ import annotations

import json
import os
import sys


def _main() -> None:
    """Draw what is asked for, until standard input ends."""
    sys.path[:] = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints is no answer

    import base64

    import vl_convert

    for line in sys.stdin:
        asked = json.loads(line)
        try:
            made = getattr(vl_convert, asked["function"])(asked["chart"], **asked["options"])
            answer = {"text": made} if isinstance(made, str) else {"bytes": base64.b64encode(made).decode()}
        except Exception as error:  # noqa: BLE001  (the parent raises it)
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    _main()
