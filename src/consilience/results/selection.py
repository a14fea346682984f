"""Choice of what a summary is of: parameters by name or pattern, functions of them such as odds ratios, an agent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import nearest, whole_number
from .._refused import Refused

if TYPE_CHECKING:
    from .run import Run

Function = Callable[[np.ndarray], Any]
Transform = str | Function | Mapping[str, str | Function]

KNOWN: Mapping[str, Function] = {
    "exp": np.exp,
    "expit": lambda x: 0.5 * (1 + np.tanh(0.5 * x)),  # 1 / (1 + exp(-x)), which does not overflow
    "log": np.log,
    "sqrt": np.sqrt,
    "square": np.square,
}
UNNAMED = "transformed"  # the name of a function without one, such as a lambda
MOST_NAMED = 8  # parameters in a refusal
MOST_COMPARED = 1000  # names, for the nearest: it takes a millisecond for some dozens


@dataclass(frozen=True, eq=False)
class Selection:
    """Numbers of a draw that a summary has one row each of, in the model's order.

    Attributes:
      numbers: their places in the vector of what was kept.
      names: names of the rows, `exp(w[age])` where a number is transformed.
      functions: what numbers are transformed by.
      which: for each number the place of its function, or -1.
    """

    numbers: np.ndarray
    names: tuple[str, ...]
    functions: tuple[Function, ...]
    which: np.ndarray

    @property
    def size(self) -> int:
        return len(self.numbers)

    def values(self, vectors: np.ndarray) -> np.ndarray:
        """Return these numbers of an array of vectors, in float64 where some are transformed: the last axis is theirs.

        All of them, untransformed, are the array itself: of a large model a copy is large.
        """
        chosen = vectors if self.size == vectors.shape[-1] else vectors[..., self.numbers]
        if (self.which < 0).all():
            return chosen
        chosen = chosen.astype(float)
        for k, function in enumerate(self.functions):
            where = np.flatnonzero(self.which == k)
            if len(where):
                chosen[..., where] = function(chosen[..., where])
        return chosen

    def part(self, places: np.ndarray) -> Selection:
        """Return a part of this selection, by places of rows."""
        names = tuple(self.names[k] for k in places)
        return Selection(self.numbers[places], names, self.functions, self.which[places])


def select(run: Run, var_names: str | Sequence[str] | None = None, transform: Transform | None = None) -> Selection:
    """Return the selection of a run's parameters that was asked for: all, untransformed, if nothing was."""
    names = parameter_names(run)
    numbers = np.arange(len(names))
    if var_names is not None:
        patterns = [var_names] if isinstance(var_names, str) else list(var_names)
        if not patterns:
            raise Refused("var_names = []", "it names no parameter", "Leave it out for all, or name one.")
        numbers = np.unique(np.concatenate([_matches(run, names, "var_names", pattern) for pattern in patterns]))
    which = np.full(len(names), -1)
    functions: list[Function] = []
    labels: list[str] = []
    for pattern, function in _transforms(transform).items():
        where = _matches(run, names, "transform", pattern)
        which[where[which[where] < 0]] = len(functions)  # the first pattern that matches
        label, known = _known_function(function)
        labels.append(label)
        functions.append(_checked(run, label, known, where))
    rows = tuple(names[k] if which[k] < 0 else f"{labels[which[k]]}({names[k]})" for k in numbers)
    return Selection(numbers, rows, tuple(functions), which[numbers])


def parameter_names(run: Run) -> tuple[str, ...]:
    """Return one name per number: `b` for a scalar, `w[3, 1]` for an element, `w[age]` where the axis has labels."""

    def labels(name: str, shape: tuple[int, ...]) -> list[Sequence[Any]]:
        dims = run.dims.get(name, ("",) * len(shape))
        given = [run.coords.get(dim, ()) for dim in dims]
        return [own if len(own) == length else range(length) for own, length in zip(given, shape, strict=True)]

    return tuple(
        name + (f"[{', '.join(map(str, place))}]" if place else "")
        for name, shape in zip(run.layout.names, run.layout.shapes, strict=True)
        for place in product(*labels(name, shape))
    )


def agent_number(run: Run, agent: int | str) -> int:
    """Return the place of an agent that was given by its number or by its name."""
    if not isinstance(agent, str):
        return whole_number("agent", agent, 0, run.agents - 1)
    names = run.agent_names
    if agent not in names:
        near = nearest(agent, names)
        shown = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
        fix = f"Write agent={near or names[0]!r}, or a number from 0 to {len(names) - 1}."
        raise Refused(f"agent = {agent!r}", f"the agents are {shown}", fix)
    return names.index(agent)


def _matches(run: Run, names: Sequence[str], argument: str, pattern: Any) -> np.ndarray:
    """Return the places of the names that a pattern matches; refuse one that matches none.

    In a pattern * stands for anything and ? for one character. It is of a parameter, and then of all its elements, or
    of elements, `w[age]`: square brackets are the names' own.
    """
    if not isinstance(pattern, str):
        reason = "names of parameters are needed, with * for anything"
        raise Refused(f"{argument} = {pattern!r}", reason, f"Write {argument}={run.layout.names[:1]!r}.")
    spaced = re.sub(r",\s*", ", ", pattern)
    wanted = re.compile(re.escape(spaced).replace(r"\*", ".*").replace(r"\?", "."))
    sizes = np.diff(run.layout.offsets)
    whole, single = (
        np.array([wanted.fullmatch(name) is not None for name in some], bool) for some in (run.layout.names, names)
    )
    found = np.flatnonzero(np.repeat(whole, sizes) | single)
    if not len(found):
        near = nearest(pattern, [*run.layout.names, *names[:MOST_COMPARED]])
        near = near or nearest(pattern.partition("[")[0], run.layout.names)
        some = list(dict.fromkeys(run.layout.names if len(names) > MOST_NAMED else names))
        there = ", ".join(some[:MOST_NAMED]) + (", ..." if len(some) > MOST_NAMED else "")
        meant = near or (run.layout.names or ("",))[0]
        fix = f"Write {argument}={meant!r}." if argument == "var_names" else f"Write {argument}={{{meant!r}: ...}}."
        raise Refused(f"{argument} = {pattern!r}", f"no parameter is called so; there are {there or 'none'}", fix)
    return found


def _transforms(transform: Transform | None) -> Mapping[str, str | Function]:
    if transform is None:
        return {}
    return transform if isinstance(transform, Mapping) else {"*": transform}


def _known_function(function: Any) -> tuple[str, Function]:
    """Return a function with its name; refuse what is neither a function nor the name of one that is known."""
    if isinstance(function, str):
        if function not in KNOWN:
            reason = f"the functions known by name are {', '.join(KNOWN)}"
            near = nearest(function, KNOWN) or "exp"
            raise Refused(f"transform = {function!r}", reason, f"Write {near!r}, or pass a function such as np.exp.")
        return function, KNOWN[function]
    if not callable(function):
        reason = "a function is needed, or the name of one"
        raise Refused(f"transform = {function!r}", reason, 'Write for example transform={"w": np.exp}.')
    name = getattr(function, "__name__", "")
    return (name if name.isidentifier() else UNNAMED), function


def _checked(run: Run, label: str, function: Function, where: np.ndarray) -> Function:
    """Return a function of an array that gives one number for each; refuse one that looks at other numbers too.

    Draws are read in blocks, so that a function of several numbers, such as one that subtracts their mean, would give
    something else for every block.
    """
    subject = "transform" if label == UNNAMED else f"transform: {label}"
    one_each = "Write a function of single numbers, such as np.exp."

    def of_array(values: np.ndarray) -> np.ndarray:
        result = np.asarray(function(values), dtype=float)
        if result.shape != values.shape:
            given = f"for numbers of shape {values.shape} it gave shape {result.shape}"
            raise Refused(subject, f"it must give one number for each; {given}", one_each)
        return result

    some = np.asarray(run.kept[:2])[:, :1, :1, where[:2]].astype(float)
    with np.errstate(all="ignore"):
        together = of_array(some)
        alone = [of_array(value.reshape(1, 1, 1, 1)).item() for value in some.ravel()]
    if not np.allclose(together.ravel(), alone, rtol=1e-4, equal_nan=True):
        raise Refused(subject, "it does not look at each number alone", one_each)
    return of_array
