"""The model and the data of logistic.toml: is a tumour malignant, judged by the cell nuclei of a biopsy?"""

import jax.numpy as jnp
from sklearn.datasets import load_breast_cancer

import consilience as cs

FEATURES = ("radius", "texture", "smoothness", "compactness", "concavity", "concave points", "symmetry")


def load():
    """569 patients: x are their features' means over the biopsy, y is 1 where the tumour is malignant."""
    data = load_breast_cancer()
    columns = [list(data.feature_names).index(f"mean {name}") for name in FEATURES]
    return {"x": data.data[:, columns].astype("float32"), "y": (data.target == 0).astype("int32")}


def posterior(prior_sd=1.0):
    """Logistic regression: log odds = intercept + Σ coefficient · feature, all of them N(0, prior_sd²) beforehand."""

    def logits(params, x):
        log_odds = params["intercept"] + sum(params[name] * x[:, k] for k, name in enumerate(FEATURES))
        return jnp.stack([jnp.zeros_like(log_odds), log_odds], axis=1)

    start = dict.fromkeys(("intercept", *FEATURES), 0.0)
    return cs.Posterior.classifier(logits, prior_precision=prior_sd**-2, init=start)
