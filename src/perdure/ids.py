"""Identities and digests: the only module that creates ids, uses randomness, or hashes content."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

import msgspec
import rfc8785
import uuid_utils

from perdure.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,199}\Z")


def new_uid() -> str:
    """A name that is unique everywhere; names sort by their time of creation."""
    return uuid_utils.uuid7().hex


def new_name(prefix: str) -> str:
    """A short name for people, such as `s-k3v9q2m7x4`. The store makes sure that it is unique."""
    number = int.from_bytes(os.urandom(7), "big")
    return prefix + "-" + "".join(_DIGITS[(number >> (5 * place)) & 31] for place in range(10))


_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


def new_secret() -> bytes:
    """256 random bits."""
    return os.urandom(32)


def salt() -> str:
    """Sixteen random bytes, so that the digest of guessable content does not reveal it."""
    return os.urandom(16).hex()


def random_uuid() -> UUID:
    """A UUID of version 4: random bytes, without a time or a place."""
    return UUID(bytes=os.urandom(16), version=4)


def random_fraction() -> float:
    """A random number from 0 up to, not including, 1."""
    return (int.from_bytes(os.urandom(7), "big") >> 3) / 2**53


def digest(content: bytes | str) -> str:
    """SHA-256 in hexadecimal, of stored bytes as they are."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def canonical(value: Any) -> bytes:
    """RFC 8785 JSON: the same bytes for the same value on every machine.

    Without fractions and with plain keys, sorted JSON is canonical JSON and twenty times faster.
    """
    try:
        if _is_plain(value):
            return msgspec.json.encode(value, order="sorted")
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise ConfigError(f"This value has no canonical JSON form: {error}.") from None


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return bool(-(2**53) < value < 2**53)
    if kind is dict:
        return all(type(key) is str and key.isascii() and _is_plain(item) for key, item in value.items())
    return (kind is list or kind is tuple) and all(_is_plain(item) for item in value)


def encode(value: Any, enc_hook: Callable[[Any], Any] | None = None) -> str:
    """JSON as it is stored: compact, in the given order. `enc_hook` makes JSON values of types that msgspec lacks."""
    try:
        return msgspec.json.encode(value, enc_hook=enc_hook).decode()
    except (TypeError, ValueError, UnicodeEncodeError) as error:
        raise ConfigError(f"This value cannot be stored as JSON: {error}.") from None


def decode(text: str) -> Any:
    """The value that `encode` stored."""
    return msgspec.json.decode(text)


def check_name(kind: str, name: str) -> str:
    """Refuse a name that a shell, a path or a database could misinterpret."""
    if not NAME.match(name):
        raise ConfigError(
            f"{kind} {name[:40]!r} is not a valid name.",
            hint="Use up to 200 characters of A-Z a-z 0-9 . _ : @ / + - and start with one of A-Z a-z 0-9.",
        )
    return name


def storable(text: str) -> str:
    """Foreign text in a form that every database can store: without NUL and without half surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def check_text(kind: str, text: str) -> str:
    """Refuse text that one of the databases could not hold: NUL, or half a surrogate pair."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ConfigError(f"{kind} contains a character that cannot be stored.", hint="Remove NUL and lone surrogates.")
    return text


@cache
def host() -> str:
    """The host name of this machine."""
    return socket.gethostname()


@cache
def boot_id() -> str:
    """Changes with every start of the machine; processes of an earlier boot are dead."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


@cache
def boot_clock() -> str:
    """The name of the boot clock that this process reads; "" if it is unknown. A container may have its own."""
    try:
        namespace = os.readlink("/proc/self/ns/time")
    except OSError:
        namespace = "time"  # a kernel without such namespaces
    return "" if boot_id() == "unknown" else f"{boot_id()} {namespace}"
