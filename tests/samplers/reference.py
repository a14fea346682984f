"""The three algorithms once more, in plain numpy over all agents at once, with a dense W: what the library must equal.

They share nothing with the library but the random numbers, so that a wrong sign, factor, order or index shows as a
difference in the first iterations.
"""

import numpy as np


class Regression:
    """ℓ_i and its derivatives for `tests.targets.linear_regression`, by hand."""

    def __init__(self, target):
        self.x = [s["x"].astype(float) for s in target.shards]
        self.y = [s["y"].astype(float) for s in target.shards]
        self.size = len(self.x)

    def gradients(self, w):
        terms = zip(self.x, self.y, w, strict=True)
        return np.stack([x.T @ (y - x @ v) - v / self.size for x, y, v in terms])

    def curvatures(self, p):
        """p_iᵀ ∇²U_i p_i."""
        terms = zip(self.x, p, strict=True)
        return np.array([(x @ v) @ (x @ v) + v @ v / self.size for x, v in terms])


def published(target, W, noise, start, step_size, rounds, tracking=True, consensus=True, metropolis_after=0):
    """Positions (iteration, agent, d), and log ρ (iteration, agent), zero while the Metropolis step is off."""
    model = Regression(target)
    w = np.tile(start, (model.size, 1)).astype(float)
    g = g_previous = model.gradients(w)
    a = a_previous = np.zeros(model.size)
    path, log_ratios = [], []
    for t, (p, log_u) in enumerate(zip(*noise, strict=True)):
        Ws = np.linalg.matrix_power(W, rounds(t))
        g_local, a_local = model.gradients(w), model.curvatures(p)
        if tracking:
            g, a = Ws @ (g + g_local - g_previous), Ws @ (a + a_local - a_previous)
        else:
            g, a = g_local, a_local
        g_previous, a_previous = g_local, a_local
        proposal = w + step_size * (p + step_size * g)
        log_ratio = np.minimum(0, -0.5 * step_size**2 * (a + (g * g).sum(axis=1)))
        if metropolis_after is None or t < metropolis_after:
            log_ratio = np.zeros(model.size)
        w = np.where((log_ratio >= log_u)[:, None], proposal, w)
        if consensus:
            w = Ws @ w
        path.append(w)
        log_ratios.append(log_ratio)
    return np.stack(path), np.stack(log_ratios)


def dula(target, laplacian, noise, start, a, beta0, corrected, delta1=0.01, delta2=0.55, b1=230, b2=230):
    model = Regression(target)
    w = np.tile(start, (model.size, 1)).astype(float)
    path = []
    for k, v in enumerate(noise):
        alpha, beta = a / (k + b1) ** delta2, beta0 / (k + b2) ** delta1
        scale = np.sqrt(2 * alpha * (model.size if corrected else 1))
        w = w - beta * laplacian @ w + alpha * model.size * model.gradients(w) + scale * v
        path.append(w)
    return np.stack(path)


def hmc(target, noise, start, step_size, steps, inverse_mass):
    """One agent with all data, `inverse_mass` a dense matrix: positions and min(0, -ΔH)."""
    model = Regression(target)
    x, y = np.concatenate(model.x), np.concatenate(model.y)

    def energy(w):
        return 0.5 * ((y - x @ w) ** 2).sum() + 0.5 * w @ w

    def force(w):
        return x.T @ (y - x @ w) - w

    w = np.array(start, float)
    path, log_ratios = [], []
    for p0, log_u in zip(*noise, strict=True):
        q, p = w, p0
        for _ in range(steps):
            p = p + 0.5 * step_size * force(q)
            q = q + step_size * inverse_mass @ p
            p = p + 0.5 * step_size * force(q)
        change = energy(q) + 0.5 * p @ inverse_mass @ p - energy(w) - 0.5 * p0 @ inverse_mass @ p0
        w = q if log_u <= -change else w
        path.append(w)
        log_ratios.append(min(0, -change))
    return np.stack(path), np.stack(log_ratios)
