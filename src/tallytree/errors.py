"""Exceptions of the library's own."""

from __future__ import annotations

import re

ARGUMENT = re.compile(r"[a-z_]+(?=: |\[| \()")
"""How the library's own messages begin: the argument, then its value or its remedy."""


SPENT = "ledger: the budget of this release is spent"
"""How the note begins that an error after the payment carries."""

MAY_BE_SPENT = "ledger: the budget of this release may be spent"
"""How it begins where the payment failed and the ledger cannot be read again."""

KEPT = "fallback: the release "
"""How the note begins that says where a release was kept whose folder could not be written."""


class BudgetExceeded(RuntimeError):  # noqa: N818  (a fixed public name)
    """Something would spend more privacy budget than was granted; nothing was drawn."""


class InputMayHaveChanged(RuntimeError):  # noqa: N818  (it says what may be, as the one above)
    """A finished run was left as it is, and the files that it was made from were replaced since; nothing was done."""


class SpecError(ValueError):
    """A spec that cannot be used; the message names the file, the line, the key, the value and the remedy."""
