"""Runs on disk: kept as they are drawn, gone on with, never mixed with others, and read without being held."""

import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tomli_w
import xarray

import consilience as cs
from consilience._refused import Refused
from consilience.engine import Chains, Hosts
from consilience.model import Layout
from consilience.samplers import DULA
from consilience.store import Part, blocks, describe_sampler, disk_draws
from consilience.store import folder as store_module
from consilience.store.arrays import DrawsFolder
from consilience.store.draws import DiskDraws, rows_at_once
from tests.killing import assert_same

from ..targets import linear_regression

TARGET = linear_regression(4)
RING = cs.Network.ring(4)
POSTERIOR = cs.Posterior(
    lambda p: -0.5 * (p["w"] @ p["w"] + p["b"] ** 2), lambda p, d: -0.5 * (d["y"] - d["x"] @ p["w"] - p["b"]) ** 2
)
INIT = {"w": np.zeros(3, np.float32), "b": np.float32(0)}
SAMPLERS = {
    "nuts": cs.nuts(),
    "dmala": cs.dmala(),
    "published": cs.published(0.05),
    "dynamic_hmc": cs.decentralize(lambda f: __import__("blackjax").dynamic_hmc(f, 0.1, np.ones(4)), name="dynamic"),
    "consensus_monte_carlo": cs.consensus_monte_carlo(),
}
GOOD = {
    "posterior": POSTERIOR,
    "shards": TARGET.shards,
    "network": RING,
    "sampler": cs.published(0.05),
    "init": INIT,
    "num_samples": 60,
    "num_warmup": 30,
    "num_chains": 2,
    "progress": False,
}


def sample(**options):
    return cs.sample(**{**GOOD, **options})


@pytest.fixture
def kill(monkeypatch):
    """Call with a number: the run ends with an error after so many chunks, of a few iterations each."""
    advance = Chains.advance

    def arm(chunks):
        left = iter(range(chunks))

        def dying(self, draws, thin, seen=True):
            next(left)  # StopIteration, at some moment, is as bad as any error
            return advance(self, draws, thin, seen)

        monkeypatch.setattr(Chains, "iterations_at_once", lambda self: 7)
        monkeypatch.setattr(Chains, "advance", dying)

    yield arm
    monkeypatch.undo()


class TestResume:
    @pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
    def test_disk_and_memory_interrupted_and_not_are_the_same_to_the_bit(self, sampler, tmp_path, kill):
        whole = sample(sampler=sampler)
        for chunks in (2, 6):  # in the warm-up, and among the draws
            kill(chunks)
            with pytest.raises((StopIteration, RuntimeError)):
                sample(sampler=sampler, out=tmp_path / "run", resume=True)
        kill(10**6)
        on_disk = sample(sampler=sampler, out=tmp_path / "run", resume=True)
        assert_same(on_disk, whole)
        assert_same(cs.load(tmp_path / "run"), whole)

    def test_killed_while_the_first_arrays_are_made_it_can_be_read_and_gone_on_with(self, tmp_path, monkeypatch):
        def killed(self, chunk, first):
            (self.folder / "draws.zarr" / "sample_stats" / "is_accepted").mkdir(parents=True)  # and nothing in it
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(store_module.RunFolder, "append", killed)
            with pytest.raises(KeyboardInterrupt):
                sample(out=tmp_path / "run", num_warmup=0)
        found = cs.load(tmp_path / "run")
        assert (found.num_draws, found.iterations, dict(found.stats)) == (0, 0, {})
        assert_same(sample(out=tmp_path / "run", num_warmup=0, resume=True), sample(num_warmup=0))

    def test_more_draws_are_those_of_one_longer_run(self, tmp_path):
        sample(sampler=cs.dmala(), out=tmp_path / "run", moments=True)
        longer = sample(sampler=cs.dmala(), out=tmp_path / "run", moments=True, num_samples=90, resume=True)
        expected = sample(sampler=cs.dmala(), num_samples=90, moments=True)
        assert_same(longer, expected)
        jax.tree.map(np.testing.assert_array_equal, longer.moments, expected.moments)

    @pytest.mark.parametrize("sampler", [cs.published(0.05), cs.consensus_monte_carlo()], ids=["published", "one-shot"])
    def test_a_finished_run_is_given_back(self, sampler, tmp_path, monkeypatch):
        first = sample(sampler=sampler, out=tmp_path / "run")
        monkeypatch.setattr(Chains, "advance", None)  # never reached
        assert_same(sample(sampler=sampler, out=tmp_path / "run", resume=True), first)

    def test_a_model_that_calls_python_can_be_gone_on_with(self, tmp_path):
        def likelihood(p, d):
            offset = jax.pure_callback(
                lambda: np.float32(0), jax.ShapeDtypeStruct((), np.float32), vmap_method="expand_dims"
            )
            return POSTERIOR.log_likelihood(p, d) + jax.lax.stop_gradient(offset)

        options = {"posterior": cs.Posterior(POSTERIOR.log_prior, likelihood), "out": tmp_path / "run"}
        sample(**options)
        assert_same(sample(**options, num_samples=70, resume=True), sample(num_samples=70))

    def test_an_interrupted_run_can_be_read(self, tmp_path, kill, monkeypatch):
        monkeypatch.setattr(store_module.RunFolder, "is_due", True)  # every chunk is saved
        kill(9)
        with pytest.raises((StopIteration, RuntimeError)):
            sample(out=tmp_path / "run")
        run = cs.load(tmp_path / "run")
        found = run.num_draws
        assert found == 28  # of nine chunks of up to 7 iterations, after a warm-up of 30
        assert (run.planned, run.is_complete, run.facts["status"]) == (60, False, "interrupted")
        monkeypatch.undo()
        np.testing.assert_array_equal(run.draws["w"], sample(num_samples=found).draws["w"])
        assert run.summary().verdict.startswith(f"Unfinished: {found} of 60 draws are there.")
        assert len(run.to_arviz().posterior.draw) == found

    def test_what_is_reported_has_been_saved_even_where_saving_is_slow(self, tmp_path, kill, monkeypatch, capsys):
        monkeypatch.setattr("consilience.runs.bar.LINE_SECONDS", 0)
        monkeypatch.setattr(store_module, "SAMPLING_SHARE", 1e9)  # only the first and the last save are affordable
        kill(9)
        with pytest.raises((StopIteration, RuntimeError)):
            sample(out=tmp_path / "run", progress=True)
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert said[0].startswith(f"published: {cs.load(tmp_path / 'run').iterations} of 90 iterations")


OTHER = {
    "seed": ({"seed": 1}, r"seed: 0 there, 1 here"),
    "chains": ({"num_chains": 3}, r"num_chains: 2 there, 3 here"),
    "warmup": ({"num_warmup": 31}, r"num_warmup: 30 there, 31 here"),
    "thin": ({"thin": 2}, r"thin: 1 there, 2 here"),
    "data": (
        {"shards": [*TARGET.shards[:3], {"x": TARGET.shards[3]["x"], "y": TARGET.shards[3]["y"] + 1}]},
        r"the data of agent 3: not what it was",
    ),
    "rows": (
        {"shards": [{k: v[:-1] for k, v in TARGET.shards[0].items()}, *TARGET.shards[1:]]},
        r"data\.rows: \[12, 13, 14, 15\] there, \[11, 13, 14, 15\] here",
    ),
    "setting": ({"sampler": cs.published(0.06)}, r"sampler\.settings\.step_size: 0\.05 there, 0\.06 here"),
    "sampler": ({"sampler": cs.dula(0.01)}, r"sampler\.name: 'published' there, 'dula' here"),
    "network": ({"network": cs.Network.path(4)}, r"network\.name: 'ring of 4' there, 'path of 4' here"),
    "weights": (
        {
            "network": cs.Network.ring(4, weights="max-degree").__class__(
                RING.graph, 0.5 * RING.weights + 0.5 * np.eye(4), "ring of 4"
            )
        },
        r"network\.weights: 'metropolis' there, 'given' here",
    ),
    "start": ({"init": {"w": np.ones(3, np.float32), "b": np.float32(0)}}, r"where the chains start: not as it was"),
    "prior": (
        {"posterior": cs.Posterior(lambda p: -0.6 * (p["w"] @ p["w"] + p["b"] ** 2), POSTERIOR.log_likelihood)},
        r"code of the model, the sampler, keep=, moments= or watch=: it computes something else now",
    ),
    "keep": ({"keep": ["w"]}, r"model\.kept\.b: \[\] there, nothing here"),
    "keep's code": ({"keep": lambda p: {"w": 2 * p["w"], "b": p["b"]}}, r"it computes something else now"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    sample(out=folder)
    return folder


class TestRefusals:
    @pytest.mark.parametrize(("change", "message"), OTHER.values(), ids=OTHER)
    def test_another_run_is_not_mixed_in(self, folder, change, message):
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        with pytest.raises(
            ValueError, match=rf"(?s)holds another run; going on would mix the two:\n.*{message}.*\nWrite the call as"
        ):
            sample(out=folder, resume=True, **change)
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before

    def test_another_noise_is_another_run(self, tmp_path, monkeypatch):
        """Not even one that compiled code of this process is for."""
        build = DULA.build

        def doubled(*args):
            kernel = build(*args)
            return kernel._replace(noise=lambda key: jax.tree.map(lambda leaf: 2 * leaf, kernel.noise(key)))

        first = sample(sampler=cs.dula(0.01), out=tmp_path / "run")
        monkeypatch.setattr(DULA, "build", lambda *args: build(*args))
        assert_same(sample(sampler=cs.dula(0.01), out=tmp_path / "run", resume=True), first)
        monkeypatch.setattr(DULA, "build", doubled)
        with pytest.raises(ValueError, match=r"(?s)holds another run.* it computes something else now"):
            sample(sampler=cs.dula(0.01), out=tmp_path / "run", resume=True)
        assert not np.array_equal(sample(sampler=cs.dula(0.01)).kept, first.kept)

    def test_a_large_setting_that_changed_in_its_middle(self, tmp_path):
        mass = np.ones(2000, np.float32)
        posterior = cs.Posterior(lambda w: -0.5 * w @ w, lambda w, d: d["y"] * w[0])
        options = {"posterior": posterior, "init": np.zeros(2000, np.float32), "num_samples": 5, "num_warmup": 0}
        sample(sampler=cs.hmc(0.01, mass), out=tmp_path / "run", **options)
        mass[1000] = 2  # which no repr shows
        changed = r"sampler\.settings\.inverse_mass_matrix\.fingerprint: \w{8}\.\.\. there, \w{8}\.\.\. here"
        with pytest.raises(ValueError, match=changed):
            sample(sampler=cs.hmc(0.01, mass), out=tmp_path / "run", resume=True, **options)

    @pytest.mark.parametrize(
        "sampler",
        [
            *SAMPLERS.values(),
            cs.published(0.05, rounds=lambda t: 1 + 0 * t),
            cs.published(0.05, np.eye(4), {0: 1, 1000: 5}),
            cs.hmc(np.float32(0.1), 2.0, num_integration_steps=3),
        ],
    )
    def test_settings_are_a_table_that_toml_keeps(self, sampler):
        settings = describe_sampler(sampler)
        assert tomllib.loads(tomli_w.dumps(settings)) == settings

    def test_settings_are_plain_values_and_say_the_same_in_every_process(self):
        settings = describe_sampler(cs.published(0.05, np.ones(4), lambda t: 1 + 0 * t))
        assert settings.pop("inverse_mass_matrix")["shape"] == [4]
        assert settings.pop("rounds")["function"].endswith("<lambda>")
        flags = {"gradient_tracking": True, "consensus_step": True, "metropolis_after": 0}
        assert settings == {"step_size": 0.05, **flags}
        assert describe_sampler(cs.published(0.05, rounds={0: 1, 9: 5}))["rounds"] == [[0, 1], [9, 5]]
        assert describe_sampler(cs.nuts()) == {"target_acceptance": 0.8, "dense_mass": False, "max_num_doublings": 10}

    def test_a_folder_with_a_run_is_not_overwritten(self, folder):
        with pytest.raises(ValueError, match=r"already holds a run\. Write resume=True to go on with it"):
            sample(out=folder)

    def test_fewer_draws_than_are_there(self, folder):
        with pytest.raises(ValueError, match=r"has 60 draws, more than num_samples = 50\. Write num_samples=60"):
            sample(out=folder, resume=True, num_samples=50)

    def test_a_folder_with_other_files(self, tmp_path):
        (tmp_path / "thesis.tex").touch()
        with pytest.raises(ValueError, match=r"holds other files\. Name a new folder: out='.*run'"):
            sample(out=tmp_path)

    def test_a_file(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(ValueError, match="is a file"):
            sample(out=tmp_path / "file")

    def test_resume_without_a_folder(self):
        with pytest.raises(ValueError, match=r"resume=True: say which run"):
            sample(resume=True)

    def test_two_writers(self, folder):
        code = """
import fcntl, sys, time
with open(sys.argv[1]) as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("ok", flush=True)
    time.sleep(60)
"""
        with subprocess.Popen([sys.executable, "-c", code, str(folder / ".lock")], stdout=subprocess.PIPE) as other:
            assert other.stdout.readline() == b"ok\n"
            with pytest.raises(ValueError, match="another process is writing to it"):
                sample(out=folder, resume=True, num_samples=70)
            other.kill()

    def test_nothing_to_load(self, tmp_path):
        with pytest.raises(ValueError, match=r"holds no run: there is no run\.toml in it"):
            cs.load(tmp_path / "nowhere")

    def test_parameters_of_another_form(self, folder):
        assert cs.load(folder, like=INIT).draws["w"].shape == (4, 2, 60, 3)
        with pytest.raises(ValueError, match=r"like: w has shape \(4,\), in .* it has \(3,\)"):
            cs.load(folder, like={"w": np.zeros(4), "b": 0.0})


class TestWhatMakesARunTheSame:
    """And what does not."""

    def test_a_terminal(self, tmp_path, monkeypatch):
        sample(out=tmp_path / "run")
        monkeypatch.setattr("jax._src.pretty_printer.CAN_USE_COLOR", True)
        sample(out=tmp_path / "run", resume=True, num_samples=61)

    def test_a_kernel_written_again(self, tmp_path):
        import blackjax

        for draws in (60, 61):
            kernel = cs.decentralize(lambda f: blackjax.mala(f, 0.01))
            sample(out=tmp_path / "run", sampler=kernel, resume=True, num_samples=draws)

    def test_settings_of_jax_that_change_draws(self, tmp_path):
        sample(out=tmp_path / "run")
        with (
            jax.threefry_partitionable(not jax.config.jax_threefry_partitionable),
            pytest.raises(ValueError, match="jax_threefry_partitionable"),
        ):
            sample(out=tmp_path / "run", resume=True, num_samples=61)


class TestStore:
    def test_a_run_that_grew_has_no_more_files_than_one_that_was_long_from_the_start(self, tmp_path):
        sample(out=tmp_path / "grown", num_samples=1)
        sample(out=tmp_path / "grown", num_samples=200, resume=True)
        sample(out=tmp_path / "long", num_samples=200)
        grown, long = (len(list((tmp_path / name).rglob("*"))) for name in ("grown", "long"))
        assert grown == long

    def test_a_folder_by_a_relative_path_is_found_from_elsewhere(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        run = sample(out="run")
        loaded = cs.load("run")
        monkeypatch.chdir("/")
        assert run.folder == tmp_path / "run"
        assert_same(loaded, run)

    def test_draws_that_are_gone_are_missed(self, tmp_path):
        sample(out=tmp_path / "run")
        shutil.rmtree(tmp_path / "run" / "draws.zarr")
        for again in (lambda: cs.load(tmp_path / "run"), lambda: sample(out=tmp_path / "run", resume=True)):
            with pytest.raises(ValueError, match="has lost its draws"):
                again()

    def test_a_full_disk_is_said_and_the_folder_let_go_of(self, tmp_path, monkeypatch):
        def full(path, content):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(store_module, "write_whole", full)
            with pytest.raises(OSError, match="No space left"):
                sample(out=tmp_path / "run")
        sample(out=tmp_path / "run", resume=True)

    def test_draws_that_could_not_be_written_do_not_count(self, tmp_path, monkeypatch):
        """A checkpoint comes after the draws that it counts, so whatever ends a run between the two costs nothing."""
        append, chunks = store_module.RunFolder.append, []

        def full_at_the_third(self, chunk, first):
            chunks.append(len(chunk.positions))
            if len(chunks) == 3:
                raise OSError(28, "No space left on device")
            append(self, chunk, first)

        with monkeypatch.context() as patch:
            patch.setattr(Chains, "iterations_at_once", lambda self: 7)
            patch.setattr(store_module.RunFolder, "is_due", True)  # every chunk is saved
            patch.setattr(store_module.RunFolder, "append", full_at_the_third)
            with pytest.raises(OSError, match="No space left"):
                sample(out=tmp_path / "run")
        assert chunks == [7, 7, 7]
        run = cs.load(tmp_path / "run")
        assert run.num_draws == 14
        assert np.isfinite(run.positions).all()

    def test_a_run_killed_while_its_folder_is_made_starts_anew(self, tmp_path, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(store_module.RunFolder, "_say", None)
            with pytest.raises(TypeError):
                sample(out=tmp_path / "run")
        sample(out=tmp_path / "run")

    def test_one_shot_draws_are_those_that_were_combined_last(self, tmp_path, monkeypatch):
        options = {"sampler": cs.consensus_monte_carlo(), "out": tmp_path / "run"}
        first = sample(**options).draws["w"]
        with monkeypatch.context() as patch:
            patch.setattr("consilience.runs.driver.combine", None)
            with pytest.raises(TypeError):
                sample(**options, num_samples=80, resume=True)
        np.testing.assert_array_equal(cs.load(tmp_path / "run").draws["w"], first)
        longer = sample(**options, num_samples=80, resume=True)
        np.testing.assert_array_equal(longer.draws["w"], sample(sampler=options["sampler"], num_samples=80).draws["w"])

    @pytest.mark.parametrize("file", ["run.toml", "checkpoints/90/0-3.npz", "scores.json"])
    def test_a_damaged_file_is_named(self, file, tmp_path):
        sample(out=tmp_path / "run")
        path = tmp_path / "run" / file
        path.write_bytes((path.read_bytes() if path.exists() else b"{")[:50] + b"=")
        with pytest.raises(ValueError, match=f"{file}: it is damaged"):
            assert cs.load(tmp_path / "run").evaluation

    def test_without_its_damaged_checkpoint_a_run_goes_on_from_the_one_before(self, tmp_path, monkeypatch):
        monkeypatch.setattr(Chains, "iterations_at_once", lambda self: 7)
        monkeypatch.setattr(store_module.RunFolder, "is_due", True)  # every chunk is saved
        sample(out=tmp_path / "run")
        (damaged,) = (tmp_path / "run" / "checkpoints" / "90").iterdir()
        damaged.write_bytes(damaged.read_bytes()[:-100])
        with pytest.raises(ValueError, match=r"damaged: .*\. Delete the folder .*90 to go on from iteration 86\. All"):
            sample(out=tmp_path / "run", resume=True)
        shutil.rmtree(damaged.parent)
        assert cs.load(tmp_path / "run").num_draws == 56
        assert_same(sample(out=tmp_path / "run", resume=True), sample())

    @pytest.mark.parametrize("name", ["..", "zarr.json", "x" * 300])
    def test_a_name_that_no_folder_can_have(self, name, tmp_path):
        with pytest.raises(ValueError, match="cannot be a folder's name"):
            sample(keep=lambda p: {name: p["w"]}, out=tmp_path / "run")

    def test_axes_have_the_model_s_names_also_when_loaded(self, tmp_path):
        posterior = replace(POSTERIOR, dims={"w": ("dose",)})
        run = sample(posterior=posterior, out=tmp_path / "run")
        for found in (run, cs.load(tmp_path / "run")):
            assert found.to_arviz().posterior.w.dims == ("chain", "draw", "dose")
        with pytest.raises(ValueError, match=r"dims: w has shape \(3,\) and axes \('a', 'b'\)"):
            sample(posterior=replace(POSTERIOR, dims={"w": ("a", "b")}))

    def test_digits_of_double_precision_are_read_without_it(self, tmp_path):
        with jax.enable_x64(True):
            wide = [{k: v.astype(float) for k, v in shard.items()} for shard in TARGET.shards]
            init = {"w": np.zeros(3), "b": 0.0}
            run = sample(shards=wide, init=init, out=tmp_path / "run", moments=True)
            draws, mean = run.draws["w"], run.moments.mean["w"]
        loaded = cs.load(tmp_path / "run", like=INIT)
        assert loaded.draws["w"].dtype == loaded.moments.mean["w"].dtype == np.float64
        np.testing.assert_array_equal(loaded.draws["w"], draws)
        np.testing.assert_array_equal(loaded.moments.mean["w"], mean)

    def test_what_all_agents_share_is_there_once_and_xarray_opens_it(self, tmp_path):
        for name, sampler, copies in (("nuts", cs.nuts(), 1), ("dmala", cs.dmala(), 4)):
            run = sample(sampler=sampler, out=tmp_path / name)
            stored = xarray.open_zarr(
                tmp_path / name / "draws.zarr", group="posterior", consolidated=False, chunks=None
            )
            assert dict(stored.w.sizes) == {"draw": 60, "chain": 2, "agent": copies, "w_dim_0": 3}
            np.testing.assert_array_equal(stored.w.values[:, :, 0], run.draws["w"][0].swapaxes(0, 1))

    def test_run_toml_says_what_the_run_is(self, tmp_path):
        sample(out=tmp_path / "run")
        said = tomllib.loads((tmp_path / "run" / "run.toml").read_text())
        assert said["status"] == "complete"
        assert said["run"] == {"num_samples": 60, "num_warmup": 30, "num_chains": 2, "thin": 1, "seed": 0}
        assert said["versions"]["jax"] == jax.__version__
        assert said["data"]["rows"] == [12, 13, 14, 15]
        assert said["model"]["parameters"] == {"b": [], "w": [3]}
        assert "samples about π²" in said["sampler"]["bias"]

    def test_a_loaded_run_says_what_the_run_itself_says(self, tmp_path):
        run = sample(out=tmp_path / "run")
        loaded = cs.load(tmp_path / "run")
        assert str(loaded.summary()) == str(run.summary())
        assert loaded.network.facts == RING.facts
        xarray.testing.assert_identical(
            loaded.to_arviz(agent="all")["posterior"].to_dataset(), run.to_arviz(agent="all")["posterior"].to_dataset()
        )

    def test_a_network_of_given_weights_comes_back(self, tmp_path):
        network = cs.Network(RING.graph, 0.5 * RING.weights + 0.5 * np.eye(4), "lazy ring")
        sample(out=tmp_path / "run", network=network)
        np.testing.assert_allclose(cs.load(tmp_path / "run").network.weights, network.weights)

    def test_what_a_killed_process_left_half_written_is_removed(self, tmp_path):
        sample(out=tmp_path / "run")
        half = tmp_path / "run" / "draws.zarr" / "posterior" / ".0.abc.partial"
        half.touch()
        sample(out=tmp_path / "run", resume=True)
        assert not half.exists()

    def test_reading_takes_a_block_at_a_time(self, tmp_path, monkeypatch):
        monkeypatch.setattr("consilience.store.draws.BLOCK_BYTES", 1000)  # 7 draws of 2 × 4 × 4 floats
        run = sample(out=tmp_path / "run")
        assert isinstance(run.kept, DiskDraws)
        assert rows_at_once(run.kept.shape, run.kept.dtype) == 7
        seen = [len(block) for block in run.blocks()]
        assert seen == [7] * 8 + [4]
        assert [len(block) for block in blocks(run.kept, 5)][:4] == [5, 2, 5, 2]
        read = []
        monkeypatch.setattr(DiskDraws, "__getitem__", _watched(DiskDraws.__getitem__, read))
        run.summary(), run.consensus_error, run.predict(lambda p, x: x @ p["w"], np.ones((2, 3), np.float32))
        assert max(read) <= 7

    def test_arviz_reads_nothing_until_asked(self, tmp_path, monkeypatch):
        sample(out=tmp_path / "run")
        import zarr

        run = cs.load(tmp_path / "run")
        trees = {0: run.to_arviz(), 3: run.to_arviz(agent=3), "all": run.to_arviz(agent="all")}
        with monkeypatch.context() as unreadable:
            unreadable.setattr(zarr.Array, "__getitem__", None)
            found = {agent: tree.posterior.w.isel(draw=slice(5)) for agent, tree in trees.items()}
            assert all(values.sizes["draw"] == 5 for values in found.values())
        for agent, values in found.items():
            chosen = slice(None) if agent == "all" else agent
            np.testing.assert_array_equal(values, run.draws["w"][chosen][..., :5, :])


def _watched(method, read):
    def watching(self, rows):
        values = method(self, rows)
        read.append(len(values))
        return values

    return watching


class TestKeep:
    def test_names(self):
        run = sample(keep=["w"])
        assert list(run.draws) == ["w"]
        np.testing.assert_array_equal(run.draws["w"], sample().draws["w"])

    def test_a_function(self):
        run = sample(sampler=cs.nuts(), keep=lambda p: {"size": jnp.linalg.norm(p["w"]), "positive": p["b"] > 0})
        every = sample(sampler=cs.nuts()).draws
        np.testing.assert_allclose(run.draws["size"], np.linalg.norm(every["w"], axis=-1), rtol=1e-6)
        np.testing.assert_array_equal(run.draws["positive"], every["b"] > 0)
        assert run.summary().names == ("positive", "size")

    def test_moments_are_those_of_the_draws_and_may_be_all_there_is(self, tmp_path):
        every = sample(num_samples=500, thin=2).draws
        run = sample(num_samples=500, thin=2, keep=[], moments=True, out=tmp_path / "run")
        for moments in (run.moments, cs.load(tmp_path / "run").moments):
            assert moments.draws == 500
            for name in ("w", "b"):
                np.testing.assert_allclose(moments.mean[name], every[name].mean(axis=2), rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(moments.variance[name], every[name].var(axis=2), rtol=1e-3)
        assert run.draws == {}
        assert "No parameters were kept" in run.summary().verdict
        assert len(run.to_arviz().posterior.data_vars) == 0
        assert not (tmp_path / "run" / "draws.zarr" / "posterior").exists()

    def test_moments_of_a_function_whatever_the_order_of_its_names(self, tmp_path):
        from collections import namedtuple

        Pair = namedtuple("Pair", ["z", "a"])  # not in the order of the alphabet
        options = {"moments": lambda p: Pair(p["w"], 2 * p["b"]), "sampler": cs.nuts()}
        run = sample(out=tmp_path / "run", **options)
        np.testing.assert_allclose(run.moments.mean.a, 2 * run.draws["b"].mean(axis=2), rtol=1e-4, atol=1e-6)
        loaded = cs.load(tmp_path / "run").moments
        np.testing.assert_allclose(loaded.mean["a"], 2 * run.draws["b"].mean(axis=2), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(loaded.mean["z"], run.draws["w"].mean(axis=2), rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"keep": ["v"]}, ValueError, r"keep: there is no parameter 'v'; there are b, w"),
            ({"keep": "w"}, ValueError, r"keep = 'w': not a list of names"),
            ({"moments": "w"}, ValueError, r"moments = 'w': True, False, or a function"),
            ({"moments": True, "sampler": cs.consensus_monte_carlo()}, ValueError, r"no running moments"),
            ({"keep": lambda p: {"f": jnp.fft.fft(p["w"])}}, ValueError, r"complex numbers cannot be kept"),
            ({"keep": lambda p: {"chain": p["b"]}}, ValueError, r"keep: 'chain' is the name of a dimension"),
        ],
    )
    def test_what_cannot_be_kept(self, options, error, message):
        with pytest.raises(error, match=message):
            sample(**options)


def test_scores_stay_with_the_run(tmp_path):
    posterior = cs.Posterior.regressor(lambda p, x: x @ p["w"] + p["b"])
    run = sample(posterior=posterior, sampler=cs.nuts(), out=tmp_path / "run")
    scores = run.evaluate(TARGET.shards[0])
    path = tmp_path / "run" / "scores.json"
    assert json.loads(path.read_text()) == {"format": 2, **scores.to_dict()}
    np.testing.assert_array_equal(cs.load(tmp_path / "run").evaluation.rmse, scores.rmse)
    path.write_text(path.read_text().replace('"format": 2', '"format": 9'))
    with pytest.raises(ValueError, match=r"scores\.json: it has format 9, and this version of consilience reads 2"):
        assert cs.load(tmp_path / "run").evaluation


def test_an_array_without_what_makes_its_folder_a_group_is_found_again(tmp_path):
    """Files of both are written side by side, and a process may be killed in between."""
    part = Part(range(1), 1)
    DrawsFolder(tmp_path, part, Hosts(), 4).put("posterior/w", np.zeros((2, 1, 1, 3)), 0, 0)
    (tmp_path / "draws.zarr" / "posterior" / "zarr.json").unlink()
    DrawsFolder(tmp_path, part, Hosts(), 4).put("posterior/w", np.ones((2, 1, 1, 3)), 2, 0)
    found = disk_draws(tmp_path, Layout.of({"w": np.zeros(3)}, "w"), 4, (1, 1))[:]
    np.testing.assert_array_equal(found[:, 0, 0, 0], [0, 0, 1, 1])


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("network.npz", b"nothing", "network.npz: it is damaged"),
        ("network.npz", None, "network.npz: it is damaged"),
        ("run.toml", b"format = 2", r"there is no \[run\] in it"),
        ("checkpoints/20/0-0.npz", b"", "it is damaged"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, file, content, said):
    run = cs.sample(
        TARGET.posterior,
        TARGET.shards,
        cs.Network.ring(4),
        cs.nuts(0.1, 1.0),
        num_samples=20,
        num_warmup=0,
        num_chains=1,
        init=np.zeros(TARGET.dimension, np.float32),
        out=tmp_path / "run",
        progress=False,
    )
    path = run.folder / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(Refused, match=said):
        cs.load(run.folder)
