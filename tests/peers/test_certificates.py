"""Certificates: believed are those of the run's authority, and what was signed with them; nothing else is."""

import contextlib
import json
import random
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("cryptography")
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from consilience.peers import Authority, Identity, Untrusted, Verifier, certificates
from consilience.peers.certificates import CONTEXT, MOST_KEPT

from ..patience import PATIENCE
from .crew import free_ports

RUN = "0123456789abcdef"
AUTHORITY = Authority.create(RUN)
STRANGER = Authority.create(RUN)  # with the very same name
CONTENT = b"a message"


def identity(name="a", authority=AUTHORITY, **options):
    return Identity(*authority.issue(name, ["127.0.0.1"], **options))


def at(monkeypatch, days):
    now = datetime.now(UTC) + timedelta(days=days)
    monkeypatch.setattr(certificates, "_now", lambda: now)


def refused(certificate, content, signature, verifier=None):
    with pytest.raises(Untrusted) as reason:
        (verifier or Verifier(AUTHORITY.certificate)).check(certificate, content, signature)
    return str(reason.value)


# --- what is believed ---------------------------------------------------------------------------------------


def test_what_an_agent_signs_is_believed_to_be_its():
    verifier = Verifier(AUTHORITY.certificate)
    for name in ("a", "b-2", "A_" * 32):
        own = identity(name)
        assert own.name == name
        assert verifier.check(own.certificate, CONTENT, own.sign(CONTENT)) == name
        assert verifier.check(own.certificate, b"", own.sign(b"")) == name


def test_a_certificate_has_what_tls_needs():
    ca = x509.load_pem_x509_certificate(AUTHORITY.certificate)
    _, pem = AUTHORITY.issue("a", ["127.0.0.1", "a.example.org", "fd00::1"])
    found = x509.load_pem_x509_certificate(pem)
    found.verify_directly_issued_by(ca)
    hosts = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(host) for host in hosts.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "fd00::1"]
    assert hosts.get_values_for_type(x509.DNSName) == ["a.example.org"]
    issuer = found.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert issuer == ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert found.version is x509.Version.v3
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).critical
    assert timedelta(days=3650) < ca.not_valid_after_utc - datetime.now(UTC) < timedelta(days=3653)
    assert timedelta(days=824) < found.not_valid_after_utc - datetime.now(UTC) < timedelta(days=826)


def test_who_only_reaches_others_has_a_name_there_all_the_same():
    _, pem = AUTHORITY.issue("observer", [])
    hosts = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert hosts.get_values_for_type(x509.DNSName) == ["observer"]


def test_an_authority_goes_on_from_its_files():
    again = Authority(AUTHORITY.key, AUTHORITY.certificate)
    own = identity("late", again)
    assert Verifier(AUTHORITY.certificate).check(own.certificate, CONTENT, own.sign(CONTENT)) == "late"


# --- what is not -----------------------------------------------------------------------------------------------


def test_a_forged_signature_is_not_believed():
    a, b = identity("a"), identity("b")
    signature = a.sign(CONTENT)
    assert "not that of a" in refused(a.certificate, CONTENT + b"!", signature)
    assert "not that of b" in refused(b.certificate, CONTENT, signature)
    assert "not that of a" in refused(a.certificate, CONTENT, b"")
    for k in range(len(signature)):
        changed = bytearray(signature)
        changed[k] ^= 1
        refused(a.certificate, CONTENT, bytes(changed))


def test_a_signature_made_for_tls_is_none_for_a_message():
    key, pem = AUTHORITY.issue("a", ["127.0.0.1"])
    bare = serialization.load_pem_private_key(key, None).sign(CONTENT, ec.ECDSA(hashes.SHA256()))
    refused(pem, CONTENT, bare)
    assert len(CONTEXT) > 32 and not CONTEXT.startswith(b" ")


def test_another_authority_s_certificate_is_not_believed():
    own = identity("a", STRANGER)
    assert "another authority" in refused(own.certificate, CONTENT, own.sign(CONTENT))


def test_an_agent_is_no_authority():
    key, pem = AUTHORITY.issue("a", ["127.0.0.1"])
    own = identity("b", Authority(key, pem))  # a signs a certificate for b
    assert "another authority" in refused(own.certificate, CONTENT, own.sign(CONTENT))
    ca = Identity(AUTHORITY.key, AUTHORITY.certificate)
    assert "an authority's" in refused(ca.certificate, CONTENT, ca.sign(CONTENT))


def test_a_certificate_is_good_for_its_time_only(monkeypatch):
    own, verifier = identity(days=30), Verifier(AUTHORITY.certificate)
    signature = own.sign(CONTENT)
    verifier.check(own.certificate, CONTENT, signature)  # and is remembered
    for days, reason in ((31, "the certificate of a expired on"), (-2, "is valid only from")):
        at(monkeypatch, days)
        assert reason in refused(own.certificate, CONTENT, signature, verifier)
        assert reason in refused(own.certificate, CONTENT, signature)
    at(monkeypatch, 29)
    assert verifier.check(own.certificate, CONTENT, signature) == "a"


def test_a_certificate_of_the_authority_s_of_another_form_is_not_believed():
    signer = serialization.load_pem_private_key(AUTHORITY.key, None)
    issuer = x509.load_pem_x509_certificate(AUTHORITY.certificate).subject
    now = datetime.now(UTC)
    for key, names, reason in (
        (rsa.generate_private_key(65537, 2048), ["a"], "another kind"),
        (ec.generate_private_key(ec.SECP256R1()), [], "cannot be read"),
        (ec.generate_private_key(ec.SECP256R1()), ["a", "b"], "cannot be read"),
    ):
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
        builder = x509.CertificateBuilder(issuer, subject, key.public_key(), 1, now, now + timedelta(days=1))
        pem = builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        assert reason in refused(pem, CONTENT, b"")


def test_random_bytes_are_refused_and_nothing_else_happens():
    generator, own, verifier = random.Random(0), identity(), Verifier(AUTHORITY.certificate)
    good, signature = own.certificate, own.sign(CONTENT)
    for k in range(300):
        noise = generator.randbytes(generator.randrange(400))
        refused(noise, CONTENT, signature, verifier)
        refused(good, CONTENT, noise, verifier)
        place = generator.randrange(len(good))
        damaged = good[:place] + noise[: k % 5] + good[place + 1 + k % 3 :]
        with contextlib.suppress(Untrusted):  # what is around the PEM block, and its white space, may change
            assert verifier.check(damaged, CONTENT, signature) == "a"
    der = x509.load_pem_x509_certificate(good).public_bytes(serialization.Encoding.DER)
    for _ in range(300):  # the same, below the text
        changed = bytearray(der)
        changed[generator.randrange(len(der))] ^= 1 << generator.randrange(8)
        refused(ssl.DER_cert_to_PEM_cert(bytes(changed)).encode(), CONTENT, signature, verifier)
    refused(b"x" * 10**6, CONTENT, signature, verifier)
    refused(b"", b"", b"", verifier)


def test_certificates_are_read_once_and_not_kept_without_end(monkeypatch):
    read = []
    parsed = Verifier._parsed
    monkeypatch.setattr(Verifier, "_parsed", lambda self, pem: read.append(pem) or parsed(self, pem))
    own, verifier = identity(), Verifier(AUTHORITY.certificate)
    signature = own.sign(CONTENT)
    for _ in range(3):
        verifier.check(own.certificate, CONTENT, signature)
    assert len(read) == 1
    for k in range(MOST_KEPT + 20):
        verifier.check(own.certificate + b"\n" * (k % 90) + b"#" * (k // 90), CONTENT, signature)
    known = verifier._read.cache_info().currsize
    assert known <= MOST_KEPT
    for k in range(20):
        refused(b"%d" % k, CONTENT, signature, verifier)
    assert verifier._read.cache_info().currsize == known
    verifier.check(own.certificate, CONTENT, signature)
    assert len(read) == 1 + MOST_KEPT + 20 + 20  # the first has been forgotten


# --- what is refused before it is used ---------------------------------------------------------------------------


def test_a_key_and_a_certificate_that_do_not_belong_together_are_refused():
    (key, _), (_, certificate) = (AUTHORITY.issue(name, ["127.0.0.1"]) for name in "ab")
    with pytest.raises(ValueError, match=r"the certificate of b was made for. Take both from the same folder"):
        Identity(key, certificate)
    for pair in ((b"", certificate), (key, b"x"), (certificate, key)):
        with pytest.raises(ValueError, match="must be PEM"):
            Identity(*pair)
    with pytest.raises(ValueError, match=r"Take authority.pem as it was made"):
        Verifier(b"nothing")


def test_no_certificate_outlives_its_authority():
    with pytest.raises(ValueError, match=r"the authority itself ends before. Write days=825"):
        AUTHORITY.issue("a", ["127.0.0.1"], days=4000)


# --- links ----------------------------------------------------------------------------------------------------------


def files(folder, name, authority, host="127.0.0.1"):
    key, certificate = authority.issue(name, [host])
    paths = {kind: folder / f"{name}-{kind}.pem" for kind in ("key", "certificate", "authority")}
    for kind, content in zip(paths, (key, certificate, authority.certificate), strict=True):
        paths[kind].write_bytes(content)
    return paths


def context(purpose, paths):
    made = ssl.SSLContext(purpose)
    made.load_cert_chain(paths["certificate"], paths["key"])
    made.load_verify_locations(paths["authority"])
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    return made


@pytest.mark.parametrize(
    ("authority", "host", "works"),
    [(AUTHORITY, "127.0.0.1", True), (AUTHORITY, "127.0.0.2", False), (STRANGER, "127.0.0.1", False)],
    ids=["own", "another host", "stranger"],
)
def test_mutual_tls_by_the_strictest_rules(tmp_path, authority, host, works):
    server = context(ssl.PROTOCOL_TLS_SERVER, files(tmp_path, "a", AUTHORITY))
    client = context(ssl.PROTOCOL_TLS_CLIENT, files(tmp_path, "b", authority))
    one, other = socket.socketpair()
    names = []

    def serve():
        with contextlib.suppress(ssl.SSLError, OSError), server.wrap_socket(one, server_side=True) as link:
            names.extend(value for field in link.getpeercert()["subject"] for _, value in field)
            link.sendall(b"hello")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(other, server_hostname=host) as link:
            assert link.recv(5) == b"hello"
        assert works and names == ["b"]
    except (ssl.SSLError, OSError):
        assert not works and not names
    finally:
        one.close()
        other.close()
        thread.join(10)


def has_six():
    try:
        with socket.socket(socket.AF_INET6) as six:
            six.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_zenoh_links_agents_and_no_stranger(tmp_path, host):
    zenoh = pytest.importorskip("zenoh")
    if host == "::1" and not has_six():
        pytest.skip("no IPv6 here")
    [port] = free_ports(1, host)

    def opened(name, authority, listen, connect):
        paths = files(tmp_path, name, authority, host)
        tls = {"root_ca_certificate": str(paths["authority"]), "enable_mtls": True, "verify_name_on_connect": True}
        for side in ("listen", "connect"):
            tls |= {f"{side}_private_key": str(paths["key"]), f"{side}_certificate": str(paths["certificate"])}
        config = zenoh.Config()
        for key, value in {
            "mode": "peer",
            "scouting/multicast/enabled": False,
            "listen/endpoints": listen,
            "connect/endpoints": connect,
            "transport/link/tls": tls,
        }.items():
            config.insert_json5(key, json.dumps(value))
        return zenoh.open(config)

    endpoint = f"tls/{host}:{port}"  # without brackets: see cli.endpoints
    with opened("a", AUTHORITY, [endpoint], []) as a:
        with opened("c", STRANGER, [], [endpoint]):
            time.sleep(0.3)
            assert not list(a.info.peers_zid())
        with opened("b", AUTHORITY, [], [endpoint]) as b:
            until = time.monotonic() + PATIENCE
            while not list(a.info.peers_zid()) and time.monotonic() < until:
                time.sleep(0.02)
            assert [str(peer) for peer in a.info.peers_zid()] == [str(b.info.zid())]
