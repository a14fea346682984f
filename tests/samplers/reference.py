"""The algorithms once more, in plain numpy over all agents at once, with a dense W: what the library must equal.

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

    def values(self, w):
        terms = zip(self.x, self.y, w, strict=True)
        return np.array([-0.5 * ((y - x @ v) ** 2).sum() - 0.5 * v @ v / self.size for x, y, v in terms])

    def gradients(self, w):
        terms = zip(self.x, self.y, w, strict=True)
        return np.stack([x.T @ (y - x @ v) - v / self.size for x, y, v in terms])

    def minibatch_gradients(self, w, uniforms):
        """Of the examples that `uniforms` (agent, batch) choose among each agent's own."""
        found = []
        for x, y, v, u in zip(self.x, self.y, w, uniforms, strict=True):
            chosen = np.floor(u * len(x)).astype(int)
            x_batch, y_batch = x[chosen], y[chosen]
            found.append(len(x) / len(u) * x_batch.T @ (y_batch - x_batch @ v) - v / self.size)
        return np.stack(found)

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


# --- Langevin between rounds of gossip -------------------------------------------------------------------
# A step is of (W, slopes, state, xi, step_size): `slopes` gives all agents' ∇U_i, the state is of arrays (agent, d).


def desgld_step(W, slopes, state, xi, step_size):
    (w,) = state
    return (W @ w - step_size * slopes(w) + np.sqrt(2 * step_size) * xi,)


def desghmc_step(W, slopes, state, xi, step_size, friction):
    w, v = state
    v = v - step_size * (friction * v + slopes(w)) + np.sqrt(2 * friction * step_size) * xi
    return W @ w + step_size * v, v


def diging_step(W, slopes, state, xi, step_size):
    w, y, before = state
    w = W @ w - step_size * y + np.sqrt(2 * step_size) * xi
    now = slopes(w)
    return w, W @ y + now - before, now


def extra_step(W, slopes, state, xi, step_size):
    w, q = state
    return W @ w - q - step_size * slopes(w) + np.sqrt(2 * step_size) * xi, q + 0.5 * (w - W @ w)


def gossip_langevin_start(name, model, start):
    w = np.tile(start, (model.size, 1)).astype(float)
    slopes = -model.gradients(w)
    zero = np.zeros_like(w)
    return {"desgld": (w,), "desghmc": (w, zero), "diging": (w, slopes, slopes), "extra": (w, zero)}[name]


GOSSIP_LANGEVIN = {"desgld": desgld_step, "desghmc": desghmc_step, "diging": diging_step, "extra": extra_step}


def gossip_langevin(name, target, W, noise, start, **settings):
    """Positions (iteration, agent, d). `noise` has what is normal, and uniform numbers where there are minibatches."""
    model = Regression(target)
    state = gossip_langevin_start(name, model, start)
    path = []
    for t, xi in enumerate(noise.normal):
        chosen = None if noise.uniforms is None else noise.uniforms[t]

        def slopes(w, chosen=chosen):
            return -model.gradients(w) if chosen is None else -model.minibatch_gradients(w, chosen)

        state = GOSSIP_LANGEVIN[name](W, slopes, state, xi, **settings)
        path.append(state[0])
    return np.stack(path)


def gossip_langevin_law(name, target, W, doublings=24, **settings):
    """Where a chain ends on a Gaussian target: the mean (agent, d) and the covariance (agent, d, agent, d) of its law.

    The step is affine, z → Az + b + Bξ; its law after 2ⁿ steps from the posterior mean is found by doubling n times.
    """
    model = Regression(target)
    first = gossip_langevin_start(name, model, target.mean)
    shape = np.stack(first).shape

    def step(z, xi):
        state = GOSSIP_LANGEVIN[name](W, lambda w: -model.gradients(w), tuple(z.reshape(shape)), xi, **settings)
        return np.stack(state).ravel()

    still = np.zeros(shape[1:])
    b = step(np.zeros(np.prod(shape)), still)
    A = np.stack([step(e, still) - b for e in np.eye(len(b))], axis=1)
    B = np.stack([step(0 * b, e.reshape(still.shape)) - b for e in np.eye(still.size)], axis=1)
    S = B @ B.T
    for _ in range(doublings):
        S, b, A = S + A @ S @ A.T, b + A @ b, A @ A
    mean = A @ np.stack(first).ravel() + b
    return mean.reshape(shape)[0], S[: still.size, : still.size].reshape(*still.shape, *still.shape)


def consensus_monte_carlo(draws, weights):
    """The weighted mean, draw by draw, of draws (draw, chain, agent, d)."""
    agents, dimension = draws.shape[2:]
    covariances = [np.cov(draws[:, :, i].reshape(-1, dimension).astype(float).T) for i in range(agents)]
    if weights == "diagonal":
        covariances = [np.diag(np.diag(V)) for V in covariances]
    precisions = [np.linalg.inv(V) for V in covariances]
    shares = [np.linalg.inv(sum(precisions)) @ P for P in precisions]
    return sum(np.einsum("kl,tcl->tck", share, draws[:, :, i]) for i, share in enumerate(shares))


def averaging_matrix(W, rounds):
    """The Chebyshev polynomial of W that shrinks disagreement most in so many rounds, by its three-term recurrence."""
    eigenvalues = np.sort(np.abs(np.linalg.eigvalsh(W)))
    beta = eigenvalues[-2]
    before, now = np.eye(len(W)), W / beta
    value_before, value = 1.0, 1 / beta
    for _ in range(rounds - 1):
        before, now = now, 2 * W / beta @ now - before
        value_before, value = value, 2 / beta * value - value_before
    return now / value


def dmala(target, A, noise, start, step_size, inverse_mass, energy="exact"):
    """Positions (iteration, agent, d), and the one log ρ of each iteration."""
    model = Regression(target)
    size = model.size
    w = np.tile(start, (size, 1)).astype(float)
    slopes = model.gradients(w)
    g = np.tile(slopes.mean(axis=0), (size, 1))
    path, log_ratios = [], []
    for z, log_u in zip(*noise, strict=True):
        p = z / np.sqrt(inverse_mass)
        half = p + 0.5 * step_size * size * g
        proposal = A @ (w + step_size * half * inverse_mass)
        new_slopes = model.gradients(proposal)
        new_g = A @ (g + new_slopes - slopes)
        if energy == "exact":
            p_new = half + 0.5 * step_size * size * new_g
            kinetic = 0.5 * ((p_new**2 - p**2) * inverse_mass).sum(axis=1).mean()
            log_ratio = model.values(proposal).sum() - model.values(w).sum() - kinetic
        else:
            squares = ((new_g**2 - g**2) * inverse_mass).sum(axis=1).mean()
            log_ratio = -(step_size**2) / 8 * size**2 * squares
        if log_ratio >= log_u:
            w, g, slopes = proposal, new_g, new_slopes
        path.append(w)
        log_ratios.append(min(0.0, log_ratio))
    return np.array(path), np.array(log_ratios)
