"""The command `consilience compare`: models side by side, by leave-one-out cross-validation."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import jax
from typer import Argument, Option

from .._compiled import keep_compiled_code
from .._refused import Refused
from ..results import (
    WEIGHTS,
    Comparison,
    Loo,
    LooBasis,
    LooSums,
    Run,
    basis_of,
    check_runs,
    comparison_of,
    k_limit,
    loo_of,
    pseudo_bma,
    rows_of_models,
    sums_of,
)
from ..results import compare as compare_runs
from ..store import check_folder
from .compared_runs import ComparedRun, find_run, is_double, load_compared
from .errors import check_extras, exit_on_error
from .loo_files import add_files, check_many_rows, owner_file, read_owner_file, write_owner_file
from .options import Quiet, json_option
from .output import print_json

SUMS = Path("loo.json")
BY_SUMS = "pseudo-BMA"  # weights that sums tell; stacking has to ask the owners again and again


def compare(
    runs: Annotated[
        list[str],
        Argument(help="Runs: folders, their TOML files, agents' folders; or owners' files.", metavar="[NAME=]RUN"),
    ],
    data: Annotated[
        str | None, Option(help="An owner's own rows, as for consilience peer: a file, or module:function.")
    ] = None,
    var_name: Annotated[
        str | None, Option("--var-name", help="The observed variable; else all, added row by row.")
    ] = None,
    out: Annotated[Path, Option(help="The file of an owner's sums.")] = SUMS,
    few_rows: Annotated[bool, Option("--few-rows", help="Write it although it is of fewer than 5 rows.")] = False,
    as_json: Annotated[bool, json_option("the figures")] = False,
    quiet: Quiet = False,
) -> None:
    """Compare models of the same rows by leave-one-out cross-validation; of one run, print how well it predicts.

    Example: consilience compare linear=runs/linear quadratic=runs/quadratic

    A run is the folder that consilience run made, or its TOML file. Model and data are found as they were.

    Owners who hold runs on machines of their own compare in two steps, and no row leaves its owner. Each one makes a
    file with sums over its own rows, of its own folders, one a model. Then anybody adds the files up.

    \u0008
    consilience compare linear/clinic-a quadratic/clinic-a --data mine.csv --out clinic-a.json
    consilience compare clinic-a.json clinic-b.json clinic-c.json
    """
    with exit_on_error():
        check_extras(cli=("zarr", "msgspec"), report=("arviz_stats",))
        written, found = None, None
        if all(run.endswith(".json") for run in runs):
            found = _added_up([Path(run) for run in runs])
        elif any(run.endswith(".json") for run in runs):
            raise Refused("", "some of these are owners' files and some are runs", "Name either.")
        else:
            keep_compiled_code()
            compared = _named([find_run(run, data) for run in runs])
            with jax.enable_x64(is_double(compared)), _said_on_stderr():
                loaded = {name: load_compared(run) for name, run in compared.items()}
                owned = [name for name, run in loaded.items() if run.owner is not None]
                if owned and len(owned) < len(loaded):
                    raise Refused("", f"{', '.join(owned)} is an owner's, and others are not", "Name runs of one kind.")
                if owned:
                    check_folder(out.parent, "--out FILE.json")
                    found, written = _of_owner(loaded, var_name, out, few_rows), out
                elif len(loaded) == 1:
                    found = next(iter(loaded.values())).loo(var_name)
                else:
                    found = compare_runs(loaded, var_name=var_name, weights=WEIGHTS[0])
    _print(found, written, as_json, quiet)


def _added_up(paths: Sequence[Path]) -> Loo | Comparison:
    """Return the figures of all owners' rows, from the files that they handed over."""
    files = {str(path): read_owner_file(path) for path in paths}
    if len(files) < len(paths):
        raise Refused("", "a file is named twice", "Name each owner's once.")
    sums, basis = add_files(files)
    models = next(iter(files.values())).models
    names = [model.name for model in models]
    return _result(names, sums, [model.draws for model in models], [model.k_limit for model in models], basis)


def _of_owner(runs: Mapping[str, Run], var_name: str | None, out: Path, few_rows: bool) -> Loo | Comparison:
    """Return the figures of an owner's own rows, and write its file."""
    if len(runs) > 1:
        check_runs(runs)
    limits = [k_limit(run) for run in runs.values()]
    rows = rows_of_models(runs, 0, var_name)
    sums = sums_of(rows, limits)
    basis = basis_of(next(iter(runs.values())), [*rows[0].values])
    file = owner_file(runs, sums, limits, basis)
    check_many_rows(file, few_rows)
    write_owner_file(out, file)
    return _result([*runs], sums, [model.draws for model in file.models], limits, basis)


def _result(
    names: Sequence[str], sums: LooSums, draws: Sequence[int], limits: Sequence[float], basis: LooBasis
) -> Loo | Comparison:
    """Return the figures of one model, or the comparison of several, as sums tell them."""
    if len(names) == 1:
        return loo_of(sums, basis, draws[0], limits[0])
    return comparison_of(names, sums, pseudo_bma(sums.elpd), limits, BY_SUMS, basis)


def _print(found: Loo | Comparison, written: Path | None, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json({**asdict(found), "file": None if written is None else str(written)})
    elif quiet and written is not None:
        print(written)
    else:
        print(found)
        if written is not None:
            owner, *others = found.basis.owners + found.basis.missing
            files = " ".join([str(written), *(f"{other}.json" for other in others)])
            print(f"\n{written} has {owner}'s sums, and no figure of a row. All owners' are added up by")
            print(f"  consilience compare {files}")


def _named(runs: Sequence[ComparedRun]) -> dict[str, ComparedRun]:
    """Return the runs by the names that were given, or else by those that tell them apart."""
    for label in (lambda run: run.title, lambda run: run.folder.name, lambda run: str(run.folder)):
        names = [run.name or label(run) for run in runs]
        if len(set(names)) == len(names):
            return dict(zip(names, runs, strict=True))
    fix = "Name each once, for example linear=runs/a quadratic=runs/b."
    raise Refused("", "two of these runs are the same, or have one name", fix)


@contextmanager
def _said_on_stderr() -> Iterator[None]:
    """Keep what users' functions print off stdout, which is for the result."""
    with redirect_stdout(sys.stderr):
        yield
