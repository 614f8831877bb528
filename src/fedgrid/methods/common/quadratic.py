"""Convex quadratic programmes over the simplex."""

import numpy as np
import torch
from torch import Tensor

SOLVERS = ("exact", "cvxpy")
RIDGE = 1e-10
"Of the largest diagonal entry, added to the diagonal, since a programme may be singular; it moves w by as little."


def minimum_on_simplex(programme: Tensor, solver: str = "exact") -> Tensor:
    """The w ≥ 0 […, n] with Σ w = 1 that minimises wᵀPw, for every positive semidefinite P […, n, n]; float64.

    Where several w are equally good (P = 0, say), one with small entries comes back; NaN for a P that is not finite.
    """
    matrices = programme.double().cpu().numpy()
    minima = [_minimum(matrix, solver) for matrix in matrices.reshape(-1, *matrices.shape[-2:])]
    return programme.new_tensor(np.stack(minima).reshape(matrices.shape[:-1]), dtype=torch.float64)


def _minimum(matrix: np.ndarray, solver: str) -> np.ndarray:
    """The w of one programme."""
    if not np.isfinite(matrix).all():
        return np.full(len(matrix), np.nan)
    scale = matrix.diagonal().max()
    if scale <= 0:
        return np.full(len(matrix), 1 / len(matrix))
    regular = matrix / scale + RIDGE * np.eye(len(matrix))
    w = {"exact": _by_active_set, "cvxpy": _by_cvxpy}[solver](regular)
    shares: np.ndarray = w / w.sum()
    return shares


def _by_active_set(matrix: np.ndarray) -> np.ndarray:
    """Up to its scale, the solution is that of min ½uᵀPu − 1ᵀu over u ≥ 0, which has the same optimality conditions.

    With P = LLᵀ this is non-negative least squares of Lᵀu against L⁻¹1, for which Lawson & Hanson's method is finite.
    """
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    lower = np.linalg.cholesky(matrix)
    u: np.ndarray = nnls(lower.T, solve_triangular(lower, np.ones(len(matrix)), lower=True))[0]
    return u


def _by_cvxpy(matrix: np.ndarray) -> np.ndarray:
    import cvxpy

    w = cvxpy.Variable(len(matrix), nonneg=True)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.quad_form(w, cvxpy.psd_wrap(matrix))), [cvxpy.sum(w) == 1])
    problem.solve(solver=cvxpy.CLARABEL)  # OSQP, the default, is less exact and now and then crashes the process
    assert w.value is not None  # a convex function has a minimum on the simplex
    minimum: np.ndarray = np.clip(w.value, 0, None)
    return minimum
