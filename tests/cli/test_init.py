"""`consilience init`, and the agents' files that it writes."""

import json
import os
import shutil
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

import pytest

pytest.importorskip("cryptography")
from cryptography import x509

import consilience as cs
from consilience._refused import Refused
from consilience._tables import keys_of
from consilience.cli.agents import check_agent, read_agent
from consilience.peers import (
    AgentTable,
    Authority,
    Verifier,
    agent_file,
    check_endpoint,
    read_agent_file,
    read_observer,
)

from .project import FILE, MODULE, assert_refused, invoke, write_project

NAMES = ["a", "b", "c", "d"]
RUN_FILE = FILE.replace("standardize = true\n", "")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A project's folder, where commands are run."""
    write_project(tmp_path)
    (tmp_path / "small.toml").write_text(RUN_FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Four agents on a ring, for tests that look at what was made."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        write_project(folder)
        (folder / "small.toml").write_text(RUN_FILE)
        patch.chdir(folder)
        result = invoke("init", "trial", "--network", "ring:4", "--names", ",".join(NAMES), "--file", "small.toml")
    assert result.exit_code == 0, result.output
    return folder / "trial"


@pytest.fixture
def trial(kept, folder):
    """A copy of it, to spoil."""
    return Path(shutil.copytree(kept, folder / "trial"))


def made(*options, into="trial"):
    result = invoke("init", into, *options)
    assert result.exit_code == 0, result.output
    return result.stdout


def endpoints(*options):
    told = json.loads(made(*options, "--json"))
    return [agent["endpoint"] for agent in told["agents"]], [agent["listen"] for agent in told["agents"]]


# --- what is made ---------------------------------------------------------------------------------------------------


def test_every_agent_has_its_folder_and_what_is_said_is_there(kept):
    assert sorted(path.name for path in kept.iterdir()) == sorted([*NAMES, "observer", "authority"])
    own = {"agent.toml", "key.pem", "certificate.pem", "authority.pem", f"{MODULE}.py"}
    for name in NAMES:
        assert {path.name for path in (kept / name).iterdir()} == own
    assert {path.name for path in (kept / "authority").iterdir()} == {"authority.pem", "authority-key.pem"}
    assert {path.name for path in (kept / "observer").iterdir()} == own - {"agent.toml", f"{MODULE}.py"} | {
        "observer.toml"
    }


def test_no_secret_is_in_two_folders(kept):
    secrets = [kept / name / "key.pem" for name in [*NAMES, "observer"]] + [kept / "authority" / "authority-key.pem"]
    contents = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    for secret in secrets:
        body = b"".join(contents[secret].splitlines()[1:-1])
        assert len(body) > 100
        holders = [path for path, content in contents.items() if body in content.replace(b"\n", b"")]
        assert holders == [secret]
    private = [path for path, content in contents.items() if b"PRIVATE" in content]
    assert sorted(private) == sorted(secrets)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_keys_are_their_owner_s_alone(kept):
    for path in kept.rglob("*key.pem"):
        assert path.stat().st_mode & 0o777 == 0o600, path
    for path in [kept, *(path for path in kept.iterdir())]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_an_agent_knows_its_neighbours_and_no_other(kept):
    network = cs.Network.ring(4)
    files = []
    for k, name in enumerate(NAMES):
        tables = tomllib.loads((kept / name / "agent.toml").read_text())
        assert list(tables["neighbors"]) == [NAMES[j] for j in network.neighbors(k)]
        others = [f":{7447 + j}" for j in range(4) if j != k and j not in network.neighbors(k)]
        assert not [port for port in others if port in (kept / name / "agent.toml").read_text()]
        assert tables["agent"]["listen"] == f"tls/127.0.0.1:{7447 + k}"
        files.append(tables)
    for one, other in combinations(files, 2):
        for table in ("model", "data", "network", "sampler", "run"):
            assert one[table] == other[table]


def test_certificates_are_the_run_s_and_name_agent_and_host(kept):
    verifier = Verifier((kept / "authority" / "authority.pem").read_bytes())
    for name in NAMES:
        agent = read_agent(kept / name / "agent.toml", "patients.csv")
        own = agent.identity()
        assert verifier.check(own.certificate, b"x", own.sign(b"x")) == name == agent.place.name
        hosts = x509.load_pem_x509_certificate(own.certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
        assert [str(host) for host in hosts.value.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    runs = {read_agent(kept / name / "agent.toml", "patients.csv").place.run_id for name in NAMES}
    assert len(runs) == 1


def test_the_authority_can_add_a_certificate_later(kept):
    authority = Authority(
        *((kept / "authority" / name).read_bytes() for name in ("authority-key.pem", "authority.pem"))
    )
    key, certificate = authority.issue("a", ["10.0.0.7"])
    assert Verifier((kept / "b" / "authority.pem").read_bytes())._read(certificate).name == "a"
    assert key not in (kept / "a" / "key.pem").read_bytes()


def test_the_observer_knows_where_all_are(kept):
    found = read_observer(kept / "observer" / "observer.toml")
    assert list(found.agents) == NAMES
    assert found.agents == {name: f"tls/127.0.0.1:{7447 + k}" for k, name in enumerate(NAMES)}
    assert found.run_id == read_agent(kept / "a" / "agent.toml", "patients.csv").place.run_id
    assert found.credentials.key == kept / "observer" / "key.pem"


def test_an_agent_s_file_is_read_as_it_was_meant(kept, folder):
    agent = read_agent(kept / "c" / "agent.toml", "patients.csv", ["run.num_samples=7"])
    assert (agent.place.name, agent.place.index, agent.folder, agent.place.names) == ("c", 2, kept / "c", tuple(NAMES))
    assert (agent.on_loss, agent.mask) == ("wait", False)
    assert agent.place.neighbors == {"b": "tls/127.0.0.1:7448", "d": "tls/127.0.0.1:7450"}
    assert agent.credentials.key == kept / "c" / "key.pem"
    config = agent.config
    assert config.data.file == str(folder / "patients.csv")
    assert (config.data.features, config.data.target, config.data.agent) == (["age", "bmi"], "ill", None)
    assert (config.run.num_samples, config.run.num_warmup, config.sampler["name"]) == (7, 60, "mala")
    assert config.out == kept / "c" / "run"
    assert config.network.kind == "ring:4"
    assert config.folder.resolve() == kept / "c"
    assert read_agent(kept / "c" / "agent.toml", "patients.csv", ["run.out=there"]).config.out == Path("there")


def test_an_agent_s_own_tables_are_read_without_the_rest(trial):
    path = trial / "b" / "agent.toml"
    whole = read_agent(path, "patients.csv")
    path.write_text(path.read_text().partition("# the same for all agents, in a module")[0])
    own = read_agent_file(path)
    assert (own.place, own.credentials, own.on_loss, own.mask) == (whole.place, whole.credentials, "wait", False)
    assert own.identity().name == "b"
    own.check_network(cs.Network.ring(4), "ring:4")
    with pytest.raises(Refused, match=r'\[neighbors\] lacks d: "complete:4" links b with a, c, d'):
        own.check_network(cs.Network.complete(4), "complete:4")


def test_what_is_told_fits_what_was_made(folder):
    text = made("--network", "ring:3", "--file", "small.toml")
    assert "the owner of agent1  tls/127.0.0.1:7448" in text
    assert "consilience peer agent1/agent.toml --data mine.csv" in text
    assert "consilience launch trial --data ..." in text
    assert "consilience status trial" in text
    assert "[split]" not in text
    assert "data.file, data.agent, data.test_fraction" in text
    assert "every agent needs" not in text
    told = json.loads(made("--network", "path:3", "--file", "small.toml", "--json", into="other"))
    assert [agent["neighbors"] for agent in told["agents"]] == [["agent1"], ["agent0", "agent2"], ["agent1"]]
    assert told["run"] == read_agent(folder / "other/agent0/agent.toml", "patients.csv").place.run_id
    assert told["folder"] == "other"


def test_without_a_file_there_is_a_skeleton_to_fill_in(folder):
    text = made("--network", "star:3", "--set", "run.seed=5")
    assert "every agent needs model: beside its agent.toml, or installed." in text
    written = (folder / "trial/agent2/agent.toml").read_text()
    for line in ('posterior = "model:posterior"', '# features = ["age", "bmi"]', '# target = "ill"', "seed = 5"):
        assert line in written
    assert "key.pem must not leave this folder" in written.splitlines()[0]
    agent = read_agent(folder / "trial/agent2/agent.toml", "patients.csv")
    assert list(agent.place.neighbors) == ["agent0"]


def test_the_file_s_network_is_taken_unless_another_is_named(folder):
    options = ("--file", "small.toml", "--set", 'network={kind="ring:3", weights="uniform"}')
    made(*options)
    made(*options, "--network", "star:4", "--weights", "max-degree", into="other")
    kinds = [tomllib.loads((folder / name / "agent0/agent.toml").read_text())["network"] for name in ("trial", "other")]
    assert kinds == [{"kind": "ring:3", "weights": "uniform"}, {"kind": "star:4", "weights": "max-degree"}]


def test_settings_and_options_reach_the_agents(folder):
    options = ("--network", "erdos_renyi:6x0.9", "--set", "network.seed=5", "--on-loss", "stop", "--mask")
    made(*options, "--set", "model.arguments.prior_precision=2.0", "--days", "10")
    agent = read_agent(folder / "trial/agent4/agent.toml", "patients.csv")
    assert (agent.on_loss, agent.mask, agent.config.network.seed) == ("stop", True, 5)
    assert agent.config.model.arguments == {"prior_precision": 2.0}
    network = cs.Network.erdos_renyi(6, 0.9, seed=5)
    assert list(agent.place.neighbors) == [f"agent{k}" for k in network.neighbors(4)]
    certificate = x509.load_pem_x509_certificate(agent.credentials.certificate.read_bytes())
    assert timedelta(days=9) < certificate.not_valid_after_utc - datetime.now(UTC) <= timedelta(days=10)


def test_schedules_survive_the_writing(folder):
    changes = ('sampler={name = "published", step_size = 0.1, rounds = {0 = 1, 10 = 5}}',)
    made("--network", "ring:3", "--set", *changes)
    agent = read_agent(folder / "trial/agent0/agent.toml", "patients.csv")
    assert agent.config.sampler["rounds"] == {"0": 1, "10": 5}


# --- where agents are -----------------------------------------------------------------------------------------------


def test_agents_on_one_machine_have_ports_of_their_own():
    expected = [f"tls/127.0.0.1:{port}" for port in (9000, 9001, 9002)]
    assert endpoints("--network", "ring:3", "--port", 9000) == (expected, expected)


def test_agents_on_machines_of_their_own_share_a_port():
    reached, listen = endpoints("--network", "ring:3", "--hosts", "10.0.0.1,b.example.org:7450,10.0.0.3")
    assert reached == ["tls/10.0.0.1:7447", "tls/b.example.org:7450", "tls/10.0.0.3:7447"]
    assert listen == ["tls/0.0.0.0:7447", "tls/0.0.0.0:7450", "tls/0.0.0.0:7447"]


def test_two_agents_on_a_machine_do_not_share_one():
    hosts = "A.example.org,a.example.org,10.0.0.3,a.example.org:7447,10.0.0.3:7449"
    reached, _ = endpoints("--network", "ring:5", "--hosts", hosts)
    assert [endpoint.rpartition(":")[2] for endpoint in reached] == ["7448", "7449", "7447", "7447", "7449"]


def test_ipv6_addresses_are_in_brackets_and_zenoh_gets_them_without(folder):
    reached, listen = endpoints("--network", "ring:3", "--hosts", "[fd00::1],[::1],[fd00::1]:7447")
    assert reached == ["tls/[fd00::1]:7448", "tls/[::1]:7447", "tls/[fd00::1]:7447"]
    assert listen == ["tls/[::]:7448", "tls/[::1]:7447", "tls/[::]:7447"]
    agent = read_agent(folder / "trial/agent1/agent.toml", "patients.csv")
    assert agent.place.neighbors == {"agent0": "tls/fd00::1:7448", "agent2": "tls/fd00::1:7447"}
    assert agent.place.listen == "tls/[::1]:7447"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.9"])
def test_an_agent_for_its_own_machine_listens_there_only(host):
    assert endpoints("--network", "path:2", "--hosts", f"{host},10.0.0.1")[1][0] == f"tls/{host}:7447"


# --- what is refused: init ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "a network is needed. Write --network ring:5."),
        ("--network rng:5", "Write ring:5."),
        ("--network complete:1", "complete:1 has one agent, which has nobody to talk to. Write --network ring:3."),
        ("--network ring:3 --weights metropols", "Write metropolis."),
        ("--network ring:3 --names a,b", "--names has 2 names, and ring:3 has 3 agents."),
        ("--network ring:3 --names a,b,a", "--names: a is there twice"),
        ("--network ring:3 --names a,b,A", "is there twice, capitals or not"),
        ("--network ring:3 --names a,b,observer", "observer is not an agent's name here. Write observer0."),
        ("--network ring:3 --names a,b,Authority", "Authority is not an agent's name here."),
        ("--network ring:3 --names a,b,../c", '"../c" has to be 1 to 64 letters, digits, _ or -. Write c.'),
        ("--network ring:3 --names a,b,*", "has to be 1 to 64 letters"),
        ("--network ring:3 --names a,,c", "has to be 1 to 64 letters"),
        (f"--network ring:3 --names a,b,{'c' * 65}", "has to be 1 to 64 letters"),
        ("--network ring:3 --hosts 10.0.0.1", "--hosts has 1 hosts, and ring:3 has 3 agents."),
        ("--network path:2 --hosts fd00::1,[::1]", '"fd00::1" is not a host. Write [fd00::1].'),
        ("--network path:2 --hosts a:b,c", '"a:b" is not a host.'),
        ("--network path:2 --hosts a:70000,c", '"a:70000" is not a host.'),
        ("--network path:2 --hosts 10.0.0.256,c", '"10.0.0.256" is not a host.'),
        ("--network path:2 --hosts a#x=y,c", '"a#x=y" is not a host.'),
        ("--network path:2 --hosts ,c", '"" is not a host.'),
        ("--network path:2 --hosts 0.0.0.0,c", "0.0.0.0 is no address that neighbours can reach."),
        ("--network path:2 --hosts localhost:1,127.0.0.1:1", "two agents cannot share port 1 of 127.0.0.1."),
        ("--network path:2 --port 65535", "there are not ports enough from there on"),
        ("--network path:2 --mask", "mask with 2 agents hides nothing"),
        ("--network ring:3 --mask --set sampler.name=dmala", "mask is not for dmala: masking hides each agent's part"),
        (
            "--network ring:3 --on-loss wiat",
            "one of wait, stop, continue-without is needed. Write wait.",
        ),
        ("--network ring:3 --set sampler.name=nuts2", "there is no such sampler. Write nuts."),
        ("--network ring:3 --set sampler.stepsize=1", "[sampler] nuts has no setting stepsize. Write step_size."),
        ("--network ring:3 --set run.num_sample=1", "[run] has no key num_sample. Write num_samples."),
        ("--network ring:3 --set run.num_samples=0", "a whole number of at least 1 is needed"),
        ("--network ring:3 --set data.featurs=1", "[data] has no key featurs. Write features."),
        ("--network ring:3 --set modle.x=1", "there is no table [modle]. Write model."),
        ("--network ring:3 --set agent.mask=true", "there is no table [agent]."),
        ("--network ring:3 --set network.sed=1", "[network] has no key sed. Write seed."),
        ("--network ring:3 --set model.numpyro=m:f", "[model] has posterior and numpyro: leave one out."),
        ("--network ring:3 --file smal.toml", "there is no file smal.toml. Did you mean small.toml?"),
        ("--file small.toml --set data.standardize=true", "put constants that all have agreed on into the model"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_left(folder, options, message):
    before = sorted(folder.iterdir())
    assert_refused(invoke("init", "trial", *options.split()), message)
    assert sorted(folder.iterdir()) == before


def test_nothing_is_written_over(folder):
    made("--network", "ring:3")
    before = {path: path.read_bytes() for path in (folder / "trial").rglob("*") if path.is_file()}
    assert_refused(invoke("init", "trial", "--network", "ring:3"), "trial is not empty", "consilience init trial-2")
    assert {path: path.read_bytes() for path in (folder / "trial").rglob("*") if path.is_file()} == before
    assert_refused(invoke("init", "small.toml", "--network", "ring:3"), "is a file, and a folder is needed")
    (folder / "empty").mkdir()
    made("--network", "ring:3", into="empty")


def test_help_shows_an_example():
    output = " ".join(invoke("init", "--help").output.split())
    assert "Example: consilience init trial --network ring:3 --names a,b,c" in output


# --- what is refused: agent.toml ---------------------------------------------------------------------------------


def changed(trial, old, new):
    path = trial / "b" / "agent.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("agent.nmae=b", "[agent] has no key nmae. Write name."),
        ("agent.mask=1", "[agent] mask = 1: true or false is needed."),
        ("agent.on_loss=3", "[agent] on_loss = 3: text in quotes is needed."),
        ("agent.on_loss=continue", "is needed. Write continue-without."),
        ("agent.listen=7447", "text in quotes is needed"),
        ("agent.listen=tcp/10.0.0.1:7447", 'listen = "tcp/10.0.0.1:7447": tls/HOST:PORT is needed. Write "tls/'),
        ("agent.listen=tls/10.0.0.1", "tls/HOST:PORT is needed"),
        ("agent.run=xyz", "16 hexadecimal digits are needed"),
        ("agent.name=e", '[agent] name = "e": names has none. There are a, b, c, d.'),
        ('agent.names=["a","b","c"]', "[agent] names has 3 names, and ring:4 has 4 agents."),
        ('agent.names=["a","b","c","../d"]', "has to be 1 to 64 letters"),
        ("agent.names=a", "a list of texts"),
        ("neighbors.d=tls/10.0.0.1:7447", '[neighbors] has d: "ring:4" links b with a, c.'),
        ("neighbors={a = 'tls/10.0.0.1:1'}", '[neighbors] lacks c: "ring:4" links b with a, c.'),
        ("neighbors.a=10.0.0.1:7447", '[neighbors] a = "10.0.0.1:7447": tls/HOST:PORT is needed.'),
        ("neighbors.a=tls/10.0.0.1:7447#x=y", "tls/HOST:PORT is needed"),
        ("neighbors.a=3", "tls/HOST:PORT is needed"),
        ("network.kind=ring:5", "[agent] names has 4 names, and ring:5 has 5 agents."),
        ("network.kind=path:4", None),
        ("network.kind=star:4", '[neighbors] has c: "star:4" links b with a.'),
        ("split.by=iid", "[split]: each agent sees only its own rows, and none are dealt out. Leave [split] out."),
        ("report.title=x", "[report]: agents write no page. Leave [report] out"),
        ("data.agent=hospital", "[data] agent: each agent sees only its own rows"),
        ("data.test=other.csv", "[data] test: each agent sees only its own rows"),
        ("data.test_fraction=0.2", "[data] test_fraction: each agent sees only its own rows"),
        ("data.standardize=true", "put constants that all have agreed on into the model"),
        ("data.featurs=x", "[data] has no key featurs. Write features."),
        ("agnet.mask=true", "there is no table [agnet]. Write agent."),
        ("neighbours.a=x", "there is no table [neighbours]. Write neighbors."),
        ("on_loss=wait", "there is no key on_loss. It belongs into [agent]."),
        ("data=3", "data = 3: a table is needed."),
        ("agent=3", "agent = 3: a table is needed."),
        ("neighbors=3", "neighbors = 3: a table is needed."),
        ("sampler.name=dul", "Write dula."),
        ("agent.mask=true", None),
        ('sampler={name = "dmala"}', None),
        ("agent.key=kye.pem", "[agent] key: there is no file"),
    ],
    ids=str,
)
def test_an_agent_s_file_that_cannot_be_meant_is_refused(kept, change, message):
    path = kept / "b" / "agent.toml"
    if message is None:
        assert read_agent(path, "patients.csv", [change]).place.name == "b"
        return
    with pytest.raises(Refused) as refusal:
        read_agent(path, "patients.csv", [change])
    assert message in str(refusal.value)


def test_masks_are_refused_where_they_would_hide_nothing(kept):
    with pytest.raises(Refused, match=r"as all gossip does. Leave mask out, .* nuts, hmc, mala can be masked"):
        read_agent(kept / "b/agent.toml", "patients.csv", ["agent.mask=true", 'sampler={name = "dmala"}'])


@pytest.mark.parametrize("key", ["name", "run", "listen", "names"])
def test_what_an_agent_needs_is_asked_for(trial, key):
    tables = tomllib.loads((trial / "b/agent.toml").read_text())
    del tables["agent"][key]
    with pytest.raises(Refused, match=rf"\[agent\] needs {key}. Write, for example, {key} = "):
        check_agent(trial / "b/agent.toml", tables)


@pytest.mark.parametrize("name", ["key.pem", "certificate.pem", "authority.pem"])
def test_a_missing_file_is_named(trial, name):
    (trial / "b" / name).unlink()
    with pytest.raises(Refused, match=rf"\[agent\] {name.removesuffix('.pem')}: there is no file .*{name}"):
        read_agent(trial / "b/agent.toml", "patients.csv")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_key_that_others_can_read_is_refused(trial, mode):
    key = trial / "b" / "key.pem"
    key.chmod(mode)
    with pytest.raises(Refused, match=f"chmod 600 {key}"):
        read_agent(trial / "b/agent.toml", "patients.csv")
    (trial / "observer" / "key.pem").chmod(mode)
    with pytest.raises(Refused, match="chmod 600"):
        read_observer(trial / "observer/observer.toml")


def test_another_agent_s_certificate_is_refused(trial):
    for name in ("key.pem", "certificate.pem"):
        shutil.copy(trial / "a" / name, trial / "b" / name)
    with pytest.raises(Refused, match="is that of a, and this is agent b"):
        read_agent(trial / "b/agent.toml", "patients.csv").identity()


def test_another_run_s_certificate_is_refused(trial):
    made("--network", "ring:4", "--names", "a,b,c,d", into="other")
    shutil.copy("other/b/authority.pem", trial / "b" / "authority.pem")
    with pytest.raises(Refused, match=r"is of no use here: .* another authority"):
        read_agent(trial / "b/agent.toml", "patients.csv").identity()


# --- whose rows ---------------------------------------------------------------------------------------------------


def test_rows_must_be_named(kept, trial, folder):
    path = kept / "b/agent.toml"
    with pytest.raises(Refused, match=r"does not say where b's rows are. Write --data mine.csv"):
        read_agent(path, None)
    with pytest.raises(Refused, match=r"Did you mean patients.csv\?"):
        read_agent(path, "patient.csv")
    with pytest.raises(Refused, match="Use a loader"):
        read_agent(path, "small.toml")
    with pytest.raises(Refused, match=r"Write --data mine.csv, or --data my_data:load"):
        read_agent(path, "nothing")
    own = changed(trial, "[data]", '[data]\nfile = "mine.csv"')
    assert read_agent(own, None).config.data.file == "mine.csv"
    assert read_agent(own, "patients.csv").config.data.file == str(folder / "patients.csv")
    assert read_agent(own, "my_data:load").config.data.file is None


def test_arrays_and_loaders_have_no_columns_to_choose(kept, folder):
    (folder / "rows.npz").write_bytes(b"")
    for data, found in (("rows.npz", (str(folder / "rows.npz"), None)), ("my_data:load", (None, "my_data:load"))):
        table = read_agent(kept / "b/agent.toml", data).config.data
        assert (table.file, table.loader) == found
        assert table.features is None and table.target is None
    changes = ["data.arguments.rows=3"]
    assert read_agent(kept / "b/agent.toml", "my_data:load", changes).config.data.arguments == {"rows": 3}
    assert read_agent(kept / "b/agent.toml", "patients.csv", changes).config.data.arguments == {}


def test_a_loader_is_found_beside_the_file_or_where_you_are(kept, folder):
    (folder / "my_data.py").write_text("")
    read_agent(kept / "b/agent.toml", f"{MODULE}:load")  # beside the file
    assert str(folder) not in sys.path
    read_agent(kept / "b/agent.toml", "my_data:load")
    assert sys.path[-1] == str(folder)


# --- the words for it -----------------------------------------------------------------------------------------------


def test_every_key_is_in_the_module_s_table():
    rows = [line.split("|") for line in agent_file.__doc__.splitlines() if line.startswith("|")]
    documented = {key.strip(" *") for row in rows[2:] for key in row[2].split(",")}
    assert {*keys_of(AgentTable), "NAME"} == documented


@pytest.mark.parametrize("endpoint", ["tls/a:1", "tls/10.0.0.1:7447", "tls/[::1]:65535", "tls/my_host.example.org:80"])
def test_endpoints(endpoint):
    assert check_endpoint("x", endpoint) == endpoint


@pytest.mark.parametrize(
    "endpoint",
    [
        *("tls/a:0", "tls/a:65536", "tls/:1", "tls/::1:7447", "tls/[a]:1", "tls/[10.0.0.1]:1", "tls/[fe80::1%eth0]:1"),
        *("tls/a b:1", "tls/a:1?x=1", "tls/a:1#x", "tls/a:1;tcp/b:2", "quic/a:1", "tls/tls/a:1", "tls/ä:1", "tls/a:१"),
        "",
    ],
)
def test_what_is_no_endpoint(endpoint):
    with pytest.raises(Refused, match="tls/HOST:PORT is needed"):
        check_endpoint("x", endpoint)
