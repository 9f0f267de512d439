"""TLS of our servers and clients, and which addresses may do without it."""

from __future__ import annotations

import ipaddress
import re
import ssl
from pathlib import Path

from assay.errors import UserError

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")


def is_loopback(host: str) -> bool:
    """Returns whether a host name or address is this machine's loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def server_tls(certificate: Path | None, key: Path | None, address: str, host: str) -> ssl.SSLContext | None:
    """Returns the settings of a server that listens on `host`; None without a certificate.

    `address` is how messages name what was asked for, such as `--listen 0.0.0.0:7070`.

    Raises:
        UserError: One file is missing or cannot be read, or the address is not a loopback one and a
            certificate is missing.
    """
    if (certificate is None) != (key is None):
        raise UserError("--tls-cert and --tls-key belong together: give both")
    if certificate is None or key is None:
        if is_loopback(host):
            return None
        raise UserError(
            f"{address} can be reached from other machines: give --tls-cert and --tls-key (a self-signed "
            "certificate will do), or listen on 127.0.0.1 behind a tunnel"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as exc:  # an SSLError is an OSError
        raise UserError(f"{certificate} and {key} are not a certificate and its key (PEM): {exc}") from exc
    return context


def own_certificate(pem: str) -> str:
    """Returns the first certificate of a PEM text, which is the server's own. A private key that is in the text is not
    part of it, nor are the authorities that follow: whoever accepts one of these accepts all that it has signed.

    Raises:
        ValueError: The text holds no certificate.
    """
    found = _CERTIFICATE.search(pem)
    if found is None:
        raise ValueError("an invalid certificate: no PEM text of one")
    return f"{found[0]}\n"


def client_tls(certificate: str) -> ssl.SSLContext:
    """Returns settings that accept one certificate only, the first of a PEM text, whatever name it carries.

    Raises:
        ValueError: The text holds no certificate, or an invalid one.
    """
    certificate = own_certificate(certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # the certificate itself is known
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate)
    return context
