"""Ed25519 keys in files that other tools read too, and signatures made with them.

A private key is a PEM file (PKCS #8, not encrypted) that only its owner may read; beside it lies `FILE.pub`. A public
key is written `ed25519:` and 64 hexadecimal digits.

Needs the `cryptography` package (extra `sign`). It was chosen over PyNaCl because it reads and writes the key files of
OpenSSL, has wheels for every Python and platform that we run on, and is released every few weeks.

Not covered: passphrases, hardware keys, revocation, and the identity of a key's holder.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.errors import UserError, describe_os_error

PUBLIC_PREFIX = "ed25519:"
_PUBLIC = re.compile(r"ed25519:[0-9a-f]{64}")
_HEX = re.compile(r"[0-9a-f]{128}")
MOST_BYTES = 16_384
"""Of a key file."""


def new_key(path: Path) -> str:
    """Creates a private key, readable by its owner alone, and `PATH.pub` beside it; returns the public key.

    Raises:
        UserError: One of the files exists, or cannot be written; or `cryptography` is not installed.
    """
    ed25519, serialization = _import_cryptography()
    public = path.with_name(f"{path.name}.pub")
    for taken in (path, public):
        if taken.exists() or taken.is_symlink():
            raise UserError(f"{taken} exists: choose another name, keys are not overwritten")
    key = ed25519.Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    shown = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    with _file_errors(path):
        _write_new(path, secret, 0o600)
        _write_new(public, shown, 0o644)
    return _format_public(key.public_key())


def public_key(text: str) -> str:
    """Returns the public key of `ed25519:HEX`, of a public key file, or of a private one.

    Raises:
        UserError: It has none of these forms; or `cryptography` is not installed and a file is named.
    """
    if text.startswith(PUBLIC_PREFIX):
        if not _PUBLIC.fullmatch(text):
            raise UserError(
                f"{text[:90]!r} is not a public key: expected {PUBLIC_PREFIX} and 64 hexadecimal digits, or a file"
            )
        return text
    path = Path(text)
    data = _read(path)
    if b"PRIVATE KEY" in data:
        return _format_public(_load_private(path, data).public_key())
    ed25519, serialization = _import_cryptography()
    try:
        found = serialization.load_pem_public_key(data)
    except ValueError as exc:
        raise UserError(f"{path} holds no public key: give a file that `assay keys new` made, or ed25519:HEX") from exc
    if not isinstance(found, ed25519.Ed25519PublicKey):
        raise UserError(f"{path} holds another kind of key: Assay signs with Ed25519")
    return _format_public(found)


def sign(path: Path, data: bytes) -> tuple[str, str]:
    """Signs `data`; returns the public key, and the signature as 128 hexadecimal digits.

    Raises:
        UserError: The file holds no private Ed25519 key, or is readable by others; or `cryptography` is missing.
    """
    key = _load_private(path, _read(path))
    if path.stat().st_mode & 0o077:
        raise UserError(f"{path} is readable by others: `chmod 600 {path}`, or make a new key if it may have been read")
    return _format_public(key.public_key()), key.sign(data).hex()


def is_valid_signature(public: str, data: bytes, signature: str) -> bool:
    """Returns whether a signature is valid. Raises `UserError` where `cryptography` is not installed."""
    if not _PUBLIC.fullmatch(public) or not _HEX.fullmatch(signature):
        return False
    from_raw = _import_cryptography()[0].Ed25519PublicKey.from_public_bytes
    from cryptography.exceptions import InvalidSignature

    try:
        from_raw(bytes.fromhex(public.removeprefix(PUBLIC_PREFIX))).verify(bytes.fromhex(signature), data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _load_private(path: Path, data: bytes) -> Any:
    ed25519, serialization = _import_cryptography()
    try:
        found = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError) as exc:  # TypeError: it has a passphrase
        raise UserError(f"{path} holds no private key without a passphrase: `assay keys new` makes one") from exc
    if not isinstance(found, ed25519.Ed25519PrivateKey):
        raise UserError(f"{path} holds another kind of key: Assay signs with Ed25519")
    return found


def _import_cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as exc:
        raise UserError("signatures need the package `cryptography`: pip install 'assay[sign]'") from exc
    return ed25519, serialization


def _format_public(key: Any) -> str:
    raw: bytes = key.public_bytes_raw()
    return PUBLIC_PREFIX + raw.hex()


def _read(path: Path) -> bytes:
    with _file_errors(path), path.open("rb") as file:
        return file.read(MOST_BYTES)


def _write_new(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


@contextlib.contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise UserError(describe_os_error(exc, exc.filename or path)) from exc
