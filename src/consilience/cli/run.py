"""The command `consilience run`: sample what a file describes."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout
from itertools import count
from pathlib import Path
from typing import Annotated

import jax
from typer import Argument, Option

from .._compiled import keep_compiled_code
from .._extras import require
from .._refused import Refused
from ..engine import Hosts
from ..results import Run
from ..runs import Devices, sample
from ..store import RUN, check_folder
from .build import DescribedRun, build
from .config import Config, differences, read_config
from .devices import (
    CoordinatorOption,
    DevicesOption,
    HostOption,
    HostsOption,
    devices_line,
    exit_on_error_together,
    runtime_of,
)
from .errors import FAILED, MOST_LINES, check_extras, check_page, exit_on_error
from .options import Changes, Quiet, json_option
from .output import result_text

CONFIG = "config.toml"


def run(
    file: Annotated[Path, Argument(help="A TOML file that describes the run.", metavar="FILE.toml")],
    changes: Changes = None,
    out: Annotated[Path | None, Option(help="The run's folder; else run.out, or runs/NAME.")] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with the run in the folder.")] = False,
    no_report: Annotated[bool, Option("--no-report", help="Do not write the page.")] = False,
    as_json: Annotated[bool, json_option("summary, scores and paths")] = False,
    quiet: Quiet = False,
    devices: DevicesOption = None,
    coordinator: CoordinatorOption = None,
    hosts: HostsOption = None,
    host: HostOption = None,
) -> None:
    """Sample what a file describes, and write a report.

    Example: consilience run examples/logistic.toml --set run.num_samples=2000

    A file needs [model], [data] and [network], as here. Modules and files are looked for beside it. All keys are in
    python -m pydoc consilience.cli.config

    \u0008
    [model]
    posterior = "my_model:posterior"   # my_model.py, beside the file
    [data]
    file = "patients.csv"              # or .parquet, .npz
    features = ["age", "bmi"]
    target = "ill"
    [network]
    kind = "ring:5"
    [sampler]
    name = "nuts"
    [run]
    num_samples = 1000

    What is compiled is kept for the next time, unless the environment has CONSILIENCE_COMPILED=off.
    """
    changes = [*(changes or []), *([] if out is None else [f"run.out={json.dumps(str(out))}"])]
    with exit_on_error():
        config = read_config(file, changes)
        runtime = runtime_of(devices, coordinator, hosts, host)
    all_hosts = Hosts() if runtime is None else runtime.hosts
    if all_hosts.count == 1:  # several must run the same code, and only the first would find its own again
        keep_compiled_code()

    def check() -> None:
        page = () if no_report else ("matplotlib", "markupsafe")
        check_extras(cli=("zarr", "tomli_w"), report=("arviz_stats", *page))
        if all_hosts.is_first:  # the others write nothing of their own, and may come when it has begun
            _check_folder(config.out, resume)
            if not no_report:
                check_page(config.page, 'file = "report.html" in [report]')

    def what_now() -> str:
        return _what_now(config.out, devices_line(devices, coordinator, hosts, host))

    precision = jax.enable_x64(config.run.x64 or jax.config.read("jax_enable_x64"))
    with precision, redirect_stdout(sys.stderr):  # stdout is for the result
        with exit_on_error_together(all_hosts, what_now):
            all_hosts.together(check)
            job = all_hosts.together(lambda: build(config))
            done = _sample(config, job, resume, quiet, runtime)
            all_hosts.part()
        if not all_hosts.is_first:
            return
        with exit_on_error(FAILED, hint=what_now):
            paths = _finish(config, job, done, not no_report)
            result = result_text(done, as_json, paths)
    print(result)


def _check_folder(folder: Path, resume: bool) -> None:
    """Refuse to start where a run already is, or where none can be written."""
    check_folder(folder, "--out DIR")
    if not resume and (folder / RUN).exists():
        other = next(name for k in count(2) if not (name := folder.with_name(f"{folder.name}-{k}")).exists())
        raise Refused(
            "",
            f"{folder} already holds a run",
            f"There are three ways on:\n"
            f"  to go on with it, or see its result again:  --resume\n"
            f"  to keep it and start another:               --out {other}\n"
            f"  to start over:                              rm -r {folder}",
        )


def _sample(config: Config, job: DescribedRun, resume: bool, quiet: bool, runtime: Devices | None) -> Run:
    is_first = runtime is None or runtime.hosts.is_first
    if not quiet and is_first:
        print(job.data, file=sys.stderr)
    try:
        return sample(
            job.posterior,
            job.data.by_owner,
            job.network,
            job.sampler,
            init=job.init,
            **config.run.settings,
            out=config.out,
            resume=resume,
            progress=not quiet,
            runtime=runtime,
            columns=job.data.columns,
        )
    except Refused as refusal:
        if resume:
            refusal.fix += _differences(config)
        raise
    finally:
        if is_first and (config.out / RUN).exists() and not (config.out / CONFIG).exists():
            _save(config)


def _differences(config: Config) -> str:
    """Say what makes this another run than the one in the folder, by the configuration that is kept with it."""
    kept = config.out / CONFIG
    try:
        lines = differences(read_config(kept), config)
    except (OSError, ValueError):  # there is no such file, or it is of another version
        return ""
    shown = lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "..."]
    return "".join([f"\n{kept} has other values:", *(f"\n  {line}" for line in shown)]) if lines else ""


def _finish(config: Config, job: DescribedRun, done: Run, report: bool) -> dict[str, str]:
    """Save the configuration, compute the scores, write the page, and return where everything is."""
    _save(config)
    if job.data.test is not None:
        if job.posterior.task is None:
            print("no scores: what the model predicts is not known; cs.Posterior.classifier says it.", file=sys.stderr)
        else:
            done.evaluate(job.data.test, ood=job.data.ood)
    paths = {"run": str(config.out), "config": str(config.out / CONFIG)}
    if report:
        done.report(config.page, config.report.title)
        paths["report"] = str(config.page)
    return paths


def _save(config: Config) -> None:
    """Write a copy of the configuration to the run's folder, with which the run can be repeated."""
    folder, out, here = config.folder.resolve(), config.out.resolve(), Path.cwd()
    if folder.is_relative_to(here) and out.is_relative_to(here):  # then they are moved together
        folder = Path(os.path.relpath(folder, out))
    text = require("tomli_w", "cli").dumps(config.to_toml(folder.as_posix()))
    (config.out / CONFIG).write_text(text, encoding="utf-8")


def _what_now(folder: Path, options: str) -> str:
    """Return how to go on after an interruption, or any other failure; nothing if nothing was saved."""
    if not (folder / CONFIG).exists():
        return ""
    return (
        f"{folder} has what was drawn.\n"
        f"  to go on from there:   consilience run {folder / CONFIG} --resume{options}\n"
        f"  to start another run:  --out DIR"
    )
