"""Files in which owners hand over sums of leave-one-out figures, for somebody to add up: `consilience compare`.

A file has sums over one owner's rows and no figure of a row; its length does not depend on how many there are. It says
of which runs and which draws they are, so that sums are added of one posterior only.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import __version__
from .._lazy import LazyModule
from .._refused import Refused
from ..results import LooBasis, LooSums, Run, added_up

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = LazyModule("msgspec", "cli")

KIND, FORMAT = "leave-one-out sums of one owner", 1
FEWEST_ROWS = 5


@dataclass(frozen=True)
class ModelSums:
    """Sums of one model over an owner's rows.

    Attributes:
      run: the run's id, and who was left out of it.
      draws: number of draws of all chains; `fingerprint` is that of their values, empty where each owner has its own.
    """

    name: str
    run: str
    draws: int
    fingerprint: str
    k_limit: float
    elpd: float
    p_loo: float
    high_k: int


@dataclass(frozen=True)
class OwnerFile:
    """What an owner's file holds: sums over its rows, whose they are, and of which runs."""

    kind: str
    format: int
    consilience: str
    owner: str
    owners: tuple[str, ...]
    is_by_row: bool
    own_draws: bool
    variables: tuple[str, ...]
    rows: int
    observations: int
    models: tuple[ModelSums, ...]
    squares: tuple[tuple[float, ...], ...]


def owner_file(runs: Mapping[str, Run], sums: LooSums, limits: Sequence[float], basis: LooBasis) -> OwnerFile:
    """Return what an owner hands over of its runs: `sums` are of its own rows."""
    models = [
        ModelSums(
            name=name,
            run=_run_id(run),
            draws=run.num_draws * run.num_chains,
            fingerprint="" if basis.own_draws else _fingerprint(run),
            k_limit=limit,
            elpd=float(sums.elpd[k]),
            p_loo=float(sums.p_loo[k]),
            high_k=int(sums.high_k[k]),
        )
        for k, ((name, run), limit) in enumerate(zip(runs.items(), limits, strict=True))
    ]
    if len({model.run for model in models}) < len(models):
        raise Refused("", "one run is there twice", "Name each run once.")
    return OwnerFile(
        kind=KIND,
        format=FORMAT,
        consilience=__version__,
        owner=sums.owners[0],
        owners=tuple(sorted((*basis.owners, *basis.missing))),
        is_by_row=basis.is_by_row,
        own_draws=basis.own_draws,
        variables=basis.variables,
        rows=sums.rows,
        observations=sums.observations,
        models=tuple(models),
        squares=tuple(tuple(map(float, row)) for row in sums.squares),
    )


def check_many_rows(file: OwnerFile, allowed: bool) -> None:
    """Refuse to hand over sums of so few rows that they tell much of each."""
    if file.rows < FEWEST_ROWS and not allowed:
        reason = f"sums over {file.rows} row{'s' * (file.rows != 1)} tell much of each, and {FEWEST_ROWS} are needed"
        raise Refused(file.owner, reason, "If that may be known, write --few-rows.")


def write_owner_file(path: Path, file: OwnerFile) -> None:
    """Write an owner's file."""
    path.write_text(json.dumps(asdict(file), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_owner_file(path: Path) -> OwnerFile:
    """Read an owner's file; refuse one that is none."""
    made_by = "An owner makes it: consilience compare RUN..."
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Refused("", f"there is no file {path}", made_by) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Refused(str(path), f"it is not JSON: {error}", made_by) from None
    if not isinstance(table, dict) or table.get("kind") != KIND:
        raise Refused(str(path), f"it has no {KIND}", made_by)
    if table.get("format") != FORMAT:
        reason = f"it has format {table.get('format')!r}, and this version of consilience reads {FORMAT}"
        raise Refused(str(path), reason, f"Use one version on all machines; this is {__version__}.")
    try:
        file = msgspec.convert(table, OwnerFile, strict=True)
    except msgspec.ValidationError as error:
        raise Refused(str(path), f"it is damaged: {error}", "Let its owner make it anew.") from None
    size = len(file.models)
    if not size or [len(row) for row in file.squares] != [size] * size or file.owner not in file.owners:
        raise Refused(str(path), "it is damaged", "Let its owner make it anew.")
    return file


def add_files(files: Mapping[str, OwnerFile]) -> tuple[LooSums, LooBasis]:
    """Add all owners' files up, in the order of the first one's models; refuse files that do not belong together.

    Args:
      files: the files by the names that messages call them by.
    """
    (first, pattern), *others = files.items()
    for name, file in others:
        _check_alike(first, pattern, name, file)
    _check_owners(files, pattern.owners)
    ids = [model.run for model in pattern.models]
    sums = added_up([_sums(file, ids) for file in files.values()])
    return sums, LooBasis(sums.owners, (), pattern.is_by_row, pattern.own_draws, pattern.variables)


def _check_alike(first: str, pattern: OwnerFile, name: str, file: OwnerFile) -> None:
    """Refuse a file of other runs, or of other draws, than the first one."""
    again = "Let both owners make it of the same runs, when these are complete."
    there, here = ({model.run: model for model in one.models} for one in (pattern, file))
    if there.keys() != here.keys():
        reason = f"it is of the runs {', '.join(sorted(here))}, and {first} of {', '.join(sorted(there))}"
        raise Refused(name, reason, again)
    for run, model in there.items():
        other = here[run]
        if model.draws != other.draws:
            raise Refused(name, f"it is of {other.draws} draws of {model.name}, and {first} of {model.draws}", again)
        if model.fingerprint != other.fingerprint:
            raise Refused(name, f"it is of other draws of {model.name} than {first}", again)
    for what in ("owners", "is_by_row", "own_draws", "variables"):
        if getattr(pattern, what) != getattr(file, what):
            reason = f"its {what} are {getattr(file, what)}, and those of {first} {getattr(pattern, what)}"
            raise Refused(name, reason, again)


def _check_owners(files: Mapping[str, OwnerFile], owners: Sequence[str]) -> None:
    """Refuse an owner that is there twice, and owners that are not there."""
    seen: dict[str, str] = {}
    for name, file in files.items():
        if file.owner in seen:
            raise Refused(name, f"it is of {file.owner}, and so is {seen[file.owner]}", "Name one of them.")
        seen[file.owner] = name
    if missing := [owner for owner in owners if owner not in seen]:
        reason = f"the runs are of {', '.join(owners)}, and there is no file of {', '.join(missing)}"
        raise Refused("", reason, "Sums over some of the rows are no comparison of the models: name all owners' files.")


def _sums(file: OwnerFile, ids: Sequence[str]) -> LooSums:
    """Return the sums of a file, its models in the order of `ids`."""
    order = [[model.run for model in file.models].index(run) for run in ids]

    def column(name: str, dtype: Any = float) -> np.ndarray:
        return np.array([getattr(file.models[k], name) for k in order], dtype)

    return LooSums(
        owners=(file.owner,),
        rows=file.rows,
        observations=file.observations,
        elpd=column("elpd"),
        p_loo=column("p_loo"),
        high_k=column("high_k", int),
        squares=np.array(file.squares)[np.ix_(order, order)],
    )


def _run_id(run: Run) -> str:
    """Return what names a run on all owners' machines, and the agents that it went on without."""
    assert run.owner is not None
    return "-without-".join([run.facts["run id"], *(["+".join(run.owner.without)] if run.owner.without else [])])


def _fingerprint(run: Run) -> str:
    """Return a hash of all draws, in order: the same on all owners' machines where they hold one chain."""
    found = hashlib.sha256(f"{run.kept.shape}{run.kept.dtype}".encode())
    for block in run.blocks():
        found.update(np.ascontiguousarray(block).data)
    return found.hexdigest()[:32]
