"""Sums over monotone paths (`monotone`) as loops compiled for the CPU: no dispatch per step, no exp or log inside.

A number is stored as mantissa · 2^exponent, with a separate integer exponent: a product multiplies and adds, a sum
needs one power of two from a table, and nothing underflows, however improbable the path. All in fp64.
"""

# mypy: ignore-errors
# The compiled functions are typed by Numba.

from __future__ import annotations

import numba
import numpy as np

NOTHING = -(2**40)  # the exponent of zero
SMALLEST = 1100  # halvings after which nothing is left of a double
LARGE = 500
POWERS = np.append(2.0 ** -np.arange(SMALLEST, dtype=np.float64), 0.0)

jit = numba.njit(error_model="numpy", cache=True, nogil=True)


@jit
def add(m, e, other_m, other_e):
    """Addition in the compiled path sums: m·2^e + other_m·2^other_e. Mantissas may grow; `settle` rescales them."""
    both = max(e, other_e)  # no branch: which of the two is larger cannot be predicted
    return m * POWERS[min(both - e, SMALLEST)] + other_m * POWERS[min(both - other_e, SMALLEST)], both


@jit
def settle(m, e):
    """Rescale a mantissa that has grown large in the compiled path sums."""
    if m > 2.0**LARGE:
        return m * 2.0**-LARGE, e + LARGE
    return m, e


@jit
def forward(cell_m, cell_e, optional, m, e):
    """Compiled forward pass of the path sums: α of one item from its cells (S, T), into m and e (S, T)."""
    steps, tokens = cell_m.shape
    for s in range(steps):
        # Paths that may move to token t: from the one before it, or over optional ones. Before the first step every
        # path waits in front of the first token.
        enter_m, enter_e = (1.0, 0) if s == 0 else (0.0, NOTHING)
        for t in range(tokens):
            if s > 0:
                new_m, new_e = add(m[s - 1, t], e[s - 1, t], enter_m, enter_e)
                if optional[t]:
                    enter_m, enter_e = new_m, new_e
                else:
                    enter_m, enter_e = m[s - 1, t], e[s - 1, t]
            else:
                new_m, new_e = enter_m, enter_e
                if not optional[t]:
                    enter_m, enter_e = 0.0, NOTHING
            new_m, new_e = settle(new_m, new_e)
            m[s, t] = new_m * cell_m[s, t]
            e[s, t] = new_e + cell_e[s, t]


@jit
def total(optional, m, e):
    """Compiled path sum of one item: paths that end on the last token, or before optional ones."""
    t = len(optional) - 1
    sum_m, sum_e = m[-1, t], e[-1, t]
    while t > 0 and optional[t]:
        t -= 1
        sum_m, sum_e = add(sum_m, sum_e, m[-1, t], e[-1, t])
    return sum_m, sum_e


@jit
def backward(cell_m, cell_e, optional, m, e, posterior):
    """Compiled backward pass of the path sums: the posterior of every cell from α, by running β back."""
    steps, tokens = cell_m.shape
    sum_m, sum_e = total(optional, m, e)
    if sum_m == 0.0:
        posterior[:] = 0.0
        return
    beta_m, beta_e = np.zeros(tokens), np.full(tokens, NOTHING)
    ending = True
    for t in range(tokens - 1, -1, -1):
        if ending:
            beta_m[t], beta_e[t] = 1.0, 0
        ending = ending and optional[t]
    for s in range(steps - 1, -1, -1):
        enter_m, enter_e = 0.0, NOTHING
        for t in range(tokens - 1, -1, -1):
            if s < steps - 1:  # first what follows: β before the cell's own score, from β after it
                own_m, own_e = beta_m[t] * cell_m[s + 1, t], beta_e[t] + cell_e[s + 1, t]
                new_m, new_e = settle(*add(own_m, own_e, enter_m, enter_e))
                beta_m[t], beta_e[t] = new_m, new_e
                if optional[t]:
                    enter_m, enter_e = new_m, new_e
                else:
                    enter_m, enter_e = own_m, own_e
            shift = e[s, t] + beta_e[t] - sum_e
            share = m[s, t] / sum_m * beta_m[t]
            if shift >= 0:
                posterior[s, t] = share / POWERS[min(shift, SMALLEST - 80)]
            else:
                posterior[s, t] = share * POWERS[min(-shift, SMALLEST)]


@jit
def run(cell_m, cell_e, optional, targets, sources, sums, sum_exponents, posterior):
    """Compiled path sums of every item (B, S, T): the sum, and its posterior if there is room for one."""
    for b in range(len(cell_m)):
        s, t = targets[b], sources[b]
        m, e = np.empty((s, t)), np.empty((s, t), np.int64)
        cells, exponents = cell_m[b, :s, :t], cell_e[b, :s, :t]
        forward(cells, exponents, optional[b, :t], m, e)
        sums[b], sum_exponents[b] = total(optional[b, :t], m, e)
        if len(posterior):
            backward(cells, exponents, optional[b, :t], m, e, posterior[b, :s, :t])
