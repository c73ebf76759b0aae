"""Tables that agree: marginals, their fit and rounding, their shares of the budget, and their errors."""
