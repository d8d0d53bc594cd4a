"""Signatures of bundles: who made one, proven with an ed25519 key.

`signature.json` lies beside the manifest and is the one file that the manifest does not list, because it signs it:

    perdure bundle signature 1      what is signed, so that a signature is valid for nothing else
    the public key
    the SHA-256 of manifest.json    which has the digest of every other file
    the name that the maker chose

So a change anywhere in the bundle makes its signature wrong, and no signature fits another bundle. Without the file the
bundle is unsigned; an import that requires a signature refuses it (`signing_keys.require`).

A signature shows who made a bundle. It gives the bundle no rights (`distrust`).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from perdure.errors import BundleInvalid, ConfigError
from perdure.ids import check_text

ALGORITHM = "ed25519"
DOMAIN = "perdure bundle signature 1"
PUBLIC_KEY = re.compile(r"[0-9a-f]{64}\Z")
LONGEST_NAME = 200


class BundleSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `signature.json`. The name is freely chosen: only the key is proven."""

    algorithm: str
    key: str
    name: str
    signature: str


class SigningKey:
    """A private key that signs bundles, and its public half as 64 hexadecimal digits."""

    def __init__(self, private: bytes | None = None) -> None:
        """Take a private key of 32 bytes, or make a new one."""
        kind = _ed25519().Ed25519PrivateKey
        self._private = kind.generate() if private is None else kind.from_private_bytes(private)
        self.public: str = self._private.public_key().public_bytes_raw().hex()

    @property
    def private(self) -> bytes:
        content: bytes = self._private.private_bytes_raw()
        return content

    def sign(self, manifest_digest: str, name: str) -> bytes:
        """The signature file of the bundle whose manifest has this digest."""
        made = self.attest(DOMAIN, manifest_digest, name)
        return msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n"

    def attest(self, domain: str, digest: str, name: str) -> BundleSignature:
        """Sign a digest. The domain says of what: a signature is valid for nothing else."""
        check_maker(name)
        signature = self._private.sign(_message(domain, self.public, digest, name)).hex()
        return BundleSignature(ALGORITHM, self.public, name, signature)


def check_maker(name: str) -> None:
    """Refuse a name that no signature can hold."""
    check_text("The name of the maker", name)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise ConfigError(f"The name of the maker must have 1 to {LONGEST_NAME} characters.")


def verified(content: bytes, manifest_digest: str) -> BundleSignature:
    """Read the signature file of a bundle; refuse one that is not right for the manifest with this digest."""
    try:
        found = msgspec.json.decode(content, type=BundleSignature)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BundleInvalid(f"The signature of the bundle cannot be read: {error}.") from None
    check_signature(found, DOMAIN, manifest_digest, "the bundle")
    return found


def check_signature(found: BundleSignature, domain: str, digest: str, thing: str) -> None:
    """Refuse a signature that is not right for this digest."""
    try:
        signature, message = bytes.fromhex(found.signature), _message(domain, found.key, digest, found.name)
    except ValueError as error:
        raise BundleInvalid(f"The signature of {thing} cannot be read: {error}.") from None
    if found.algorithm != ALGORITHM or not PUBLIC_KEY.match(found.key) or not 1 <= len(found.name) <= LONGEST_NAME:
        raise BundleInvalid(f"The signature of {thing} is not of a kind that this version of Perdure knows.")
    public = _ed25519().Ed25519PublicKey.from_public_bytes(bytes.fromhex(found.key))
    from cryptography.exceptions import InvalidSignature

    try:
        public.verify(signature, message)
    except InvalidSignature:
        raise BundleInvalid(
            f"The signature of {thing} is wrong: {thing} was changed, or the signature belongs to another one.",
            hint="Get it again from its maker.",
        ) from None


def _message(domain: str, key: str, digest: str, name: str) -> bytes:
    """What is signed. Only the name, which comes last, has no fixed form."""
    return "\n".join((domain, key, digest, name)).encode()


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ConfigError(
            "Signatures need a package that is not installed.", hint="Run `pip install 'perdure[sign]'`."
        ) from None
    return ed25519
