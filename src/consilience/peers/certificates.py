"""Certificates of a run: a private authority, the agents' certificates, and signatures made with them.

The authority is made for one run and signs one certificate for each agent, with the agent's name as common name. The
same key and certificate are used for the links (mutual TLS) and for what an agent signs itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any

from .._lazy import LazyModule
from .._refused import Refused

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509 import oid
else:
    x509, oid, hashes, serialization, ec = (
        LazyModule(f"cryptography.{name}", "peers")
        for name in (
            *("x509", "x509.oid", "hazmat.primitives.hashes", "hazmat.primitives.serialization"),
            "hazmat.primitives.asymmetric.ec",
        )
    )

AUTHORITY_DAYS = 3652  # ten years
AGENT_DAYS = 825
EARLIER = timedelta(days=1)  # certificates are valid from so long before now, for clocks that are behind
MOST_BYTES = 16_384  # of a certificate that is read
MOST_KEPT = 1024  # certificates that are remembered, and not read again
# Prefix of all that is signed here, and never of what TLS signs with the same key: that starts with 64 spaces, or with
# 32 bytes that a stranger chose and then random ones.
CONTEXT = b"consilience peers: what an agent signs by itself\n"


class Untrusted(ValueError):  # noqa: N818
    """Raised for a certificate or a signature that is not to be trusted, with the reason."""


class Authority:
    """Private certificate authority, which signs the certificates of a run's agents.

    Args:
      key: its private key, PEM. Whoever has it can pose as any agent.
      certificate: its certificate, PEM; everybody may have it.
    """

    def __init__(self, key: bytes, certificate: bytes) -> None:
        self.key = key
        self.certificate = certificate
        self._key, self._certificate = _own(key, certificate)

    @classmethod
    def create(cls, run_id: str) -> Authority:
        """Create an authority for a run, with a new key and a certificate that it signs itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _named(f"consilience {run_id}")
        usage = _usage(key_cert_sign=True, crl_sign=True)
        builder = _builder(name, name, key, AUTHORITY_DAYS, authority=key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        certificate = builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())
        return cls(_key_pem(key), _pem(certificate))

    def issue(self, name: str, hosts: Sequence[str], days: int = AGENT_DAYS) -> tuple[bytes, bytes]:
        """Make a new private key for an agent and sign a certificate for it; both are PEM.

        Args:
          name: the agent's name.
          hosts: where it is reached, names or IP addresses; none for an agent that only dials others.
          days: how long the certificate is good for.
        """
        if _end(days) > self._certificate.not_valid_after_utc:
            raise Refused(f"days = {days}", "the authority itself ends before", f"Write days={AGENT_DAYS}.")
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(name), self._certificate.subject, key, days, authority=self._key.public_key())
        for extension, critical in (
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.SubjectAlternativeName([_host(host) for host in hosts or [name]]), False),
            (x509.ExtendedKeyUsage([oid.ExtendedKeyUsageOID.SERVER_AUTH, oid.ExtendedKeyUsageOID.CLIENT_AUTH]), False),
            (_usage(digital_signature=True), True),
        ):
            builder = builder.add_extension(extension, critical=critical)
        return _key_pem(key), _pem(builder.sign(self._key, hashes.SHA256()))


class Identity:
    """An agent's own key and certificate.

    Args:
      key_pem: its private key, which it shows to nobody.
      certificate_pem: its certificate, which the authority has signed.

    Attributes:
      name: the certificate's common name.
      certificate: the certificate, PEM.
    """

    def __init__(self, key_pem: bytes, certificate_pem: bytes) -> None:
        self._key, certificate = _own(key_pem, certificate_pem)
        self.name = _common_name(certificate)
        self.certificate = certificate_pem

    def sign(self, content: bytes) -> bytes:
        """Sign `content` by ECDSA with SHA-256, for `Verifier.check`."""
        return self._key.sign(CONTEXT + content, ec.ECDSA(hashes.SHA256()))


@dataclass(frozen=True)
class _Known:
    """Contents of a certificate that the authority has signed."""

    name: str
    key: ec.EllipticCurvePublicKey
    begins: datetime
    ends: datetime


class Verifier:
    """Verifier of what has been signed under certificates of one authority.

    Args:
      ca_pem: the authority's certificate, PEM.
    """

    def __init__(self, ca_pem: bytes) -> None:
        try:
            self._authority = x509.load_pem_x509_certificate(ca_pem)
        except ValueError:
            raise Refused(
                "the authority's certificate", "it is not PEM", "Take authority.pem as it was made."
            ) from None
        self._read = lru_cache(MOST_KEPT)(self._parsed)

    def check(self, certificate_pem: bytes, content: bytes, signature: bytes) -> str:
        """Return the name of the agent that signed `content`; raise `Untrusted` if that is not certain."""
        known = self._read(certificate_pem)
        now = _now()
        if now < known.begins:
            raise Untrusted(f"the certificate of {known.name} is valid only from {known.begins:%Y-%m-%d %H:%M} UTC on.")
        if now > known.ends:
            raise Untrusted(f"the certificate of {known.name} expired on {known.ends:%Y-%m-%d %H:%M} UTC.")
        try:
            known.key.verify(signature, CONTEXT + content, ec.ECDSA(hashes.SHA256()))
        except Exception:
            raise Untrusted(f"the signature is not that of {known.name} under this content.") from None
        return known.name

    def _parsed(self, certificate_pem: bytes) -> _Known:
        """Read a certificate of this authority."""
        if len(certificate_pem) > MOST_BYTES:
            raise Untrusted(f"the certificate has {len(certificate_pem)} bytes, and {MOST_BYTES} are the most.")
        try:
            certificate = x509.load_pem_x509_certificate(certificate_pem)
        except Exception:  # the parser has errors of several types, and none may get through
            raise Untrusted("the certificate is not PEM.") from None
        try:
            certificate.verify_directly_issued_by(self._authority)
        except Exception:
            raise Untrusted("the certificate is signed by another authority than this run's.") from None
        try:
            is_authority = _is_authority(certificate)
            key = certificate.public_key()
            name = _common_name(certificate)
        except Exception:
            raise Untrusted("the certificate cannot be read.") from None
        if is_authority:
            raise Untrusted("the certificate is an authority's, and an agent's is needed.")
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise Untrusted(f"the certificate of {name} has a key of another kind than this package makes.")
        return _Known(name, key, certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _own(key_pem: bytes, certificate_pem: bytes) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Read a private key and its certificate, and refuse them where they do not belong together."""
    try:
        key: Any = serialization.load_pem_private_key(key_pem, password=None)
        certificate = x509.load_pem_x509_certificate(certificate_pem)
    except (ValueError, TypeError) as error:  # a key with a password is a TypeError
        raise Refused("the key and its certificate must be PEM, the key without a password", str(error)) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
        raise Refused(
            "",
            f"the key is not the one that the certificate of {_common_name(certificate)} was made for",
            "Take both from the same folder.",
        )
    return key, certificate


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    days: int,
    authority: ec.EllipticCurvePublicKey,
) -> x509.CertificateBuilder:
    """Return a builder with the fields and extensions that all certificates have."""
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - EARLIER)
        .not_valid_after(_end(days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority), critical=False)
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _end(days: int) -> datetime:
    return _now().replace(microsecond=0) + timedelta(days=days)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, name)])


def _common_name(certificate: x509.Certificate) -> str:
    (name,) = certificate.subject.get_attributes_for_oid(oid.NameOID.COMMON_NAME)
    return str(name.value)


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(**uses: bool) -> x509.KeyUsage:
    return x509.KeyUsage(**{name: uses.get(name, False) for name in signature(x509.KeyUsage).parameters})


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
