"""The user's keys: the one that signs, and the public keys of others by the name the user gave them.

    keys/signing.key    the private key, made when it is first used; for its owner alone
    keys/known.json     public key -> name

Both are in the user's data folder, and nothing in a bundle, a repository or a store can add to them. A file that
another user could have written or read is refused. Each is written under a temporary name, synced, and then given its
name, so a process that dies here leaves the old file or the new one. The signing key is never replaced.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from perdure.config import data_folder, read_file
from perdure.durable import make_folder, write_whole
from perdure.errors import BundleInvalid, ConfigError, Conflict, NotFound
from perdure.ids import NAME
from perdure.interchange.signature import PUBLIC_KEY, BundleSignature, SigningKey

ME = "me"  # the name of the user's own key
ANY_KNOWN = "any-known"
PRIVATE = "ed25519-private-key:"  # before the digits, so that they are not mistaken for a public key
_WEAK = {  # the y coordinates of the points of small order, also in the spellings that are not reduced
    "00" * 32,
    "01" + "00" * 31,
    "ec" + "ff" * 30 + "7f",
    "ed" + "ff" * 30 + "7f",
    "ee" + "ff" * 30 + "7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
}
SHOWN = 32  # digits of a public key that are shown: too many to make another key with the same ones


class Signer(msgspec.Struct, frozen=True, kw_only=True):
    """Who signed a bundle: the name by which the user knows the key, and the name that the maker chose."""

    state: Literal["known", "unknown", "none"]
    name: str | None = None
    key: str | None = None
    claimed_name: str | None = None


def fingerprint(key: str) -> str:
    """The beginning of a public key, for people to compare."""
    return key[:SHOWN]


def signer_of(signature: BundleSignature | None) -> Signer:
    """Who made a signature that was verified."""
    if signature is None:
        return Signer(state="none")
    name = ME if signature.key == own_key() else known_keys().get(signature.key)
    state: Literal["known", "unknown"] = "unknown" if name is None else "known"
    return Signer(state=state, name=name, key=signature.key, claimed_name=signature.name)


def require(signer: Signer, name: str, thing: str = "bundle") -> None:
    """Refuse what was not signed by this name, or by any name that the user knows."""
    if name not in (ANY_KNOWN, ME) and name not in known_keys().values():
        raise NotFound(f"No key is known by the name {name!r}.", hint=f"`perdure keys add {name} KEY` adds one.")
    if signer.name is not None and name in (signer.name, ANY_KNOWN):
        return
    found = (
        "not signed" if signer.key is None
        else f"signed by {signer.name}" if signer.name is not None
        else f"signed by an unknown key, {fingerprint(signer.key)}"
    )  # fmt: skip
    wanted = "a key that you know" if name == ANY_KNOWN else f"the key of {name}"
    raise BundleInvalid(
        f"The {thing} is {found}, and must be signed by {wanted}.", hint="`perdure keys` lists the keys that you know."
    )


def signing_key() -> SigningKey:
    """The user's own key; made now if there is none."""
    if (found := _own()) is not None:
        return found
    with _changing() as folder:
        if (found := _own()) is None:  # another process may have made it in the meantime
            found = SigningKey()
            write_whole(folder / "signing.key", f"{PRIVATE}{found.private.hex()}\n".encode())
    return found


def own_key() -> str | None:
    """The user's own public key; None if there is none yet."""
    found = _own()
    return None if found is None else found.public


def known_keys() -> dict[str, str]:
    """The names of the keys of others, by public key."""
    path = _folder() / "known.json"
    if (text := _read(path, closed=0o022)) is None:
        return {}
    try:
        found = msgspec.json.decode(text, type=dict[str, str])
        for key, name in found.items():
            _check(name, key)
    except (msgspec.MsgspecError, ConfigError, RecursionError) as error:
        said = str(error).rstrip(".")
        raise ConfigError(f"{path} cannot be read: {said}.", hint="Correct the file, or move it away.") from None
    return found


def add_key(name: str, key: str) -> None:
    """Know a public key by a name from now on. A name has one key, and a key has one name."""
    _check(name, key)
    if key == own_key():
        raise Conflict("This is your own key.", hint=f"It is known as `{ME}` already.")
    with _changing() as folder:
        known = known_keys()
        if known.get(key) == name:
            return
        if key in known or name in known.values():
            raise Conflict(
                f"This key is known as {known[key]} already." if key in known else f"{name} has another key.",
                hint=f"`perdure keys remove {known.get(key, name)}` removes it.",
            )
        _write_known(folder, known | {key: name})


def remove_key(name: str) -> None:
    """Remove a known key."""
    with _changing() as folder:
        known = known_keys()
        if name not in known.values():
            raise NotFound(f"No key is known by the name {name!r}.", hint="`perdure keys` lists them.")
        _write_known(folder, {key: one for key, one in known.items() if one != name})


def _check(name: str, key: str) -> None:
    if not NAME.match(name) or name in (ME, ANY_KNOWN):
        raise ConfigError(f"{name[:80]!r} cannot be the name of a key.", hint="Use A to Z, a to z, digits and ._:@/+-")
    if not PUBLIC_KEY.match(key) or _is_weak(key):
        raise ConfigError(
            "This is not a public key.", hint="It has 64 digits from 0 to f: its owner sees it with `perdure keys`."
        )


def _is_weak(key: str) -> bool:
    """Whether it is one of the few points for which one signature fits every message. No private key has one."""
    point = bytearray.fromhex(key)
    point[-1] &= 0x7F  # without the sign
    return point.hex() in _WEAK


def _write_known(folder: Path, known: dict[str, str]) -> None:
    write_whole(
        folder / "known.json", msgspec.json.format(msgspec.json.encode(known, order="sorted"), indent=2) + b"\n"
    )


def _own() -> SigningKey | None:
    path = _folder() / "signing.key"
    if (text := _read(path, closed=0o077)) is None:
        return None
    digits = text.removeprefix(PRIVATE).strip()
    if not text.startswith(PRIVATE) or not PUBLIC_KEY.match(digits):
        raise ConfigError(f"{path} does not hold a signing key.", hint="Restore it from a backup, or move it away.")
    return SigningKey(bytes.fromhex(digits))


def _folder() -> Path:
    return data_folder() / "keys"


@contextmanager
def _changing() -> Iterator[Path]:
    """The folder of the keys, made if there is none, and locked so that two processes cannot change it at once."""
    folder = _folder()
    make_folder(folder)
    _refuse_strange(folder, closed=0o022)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(place)


def _read(path: Path, *, closed: int) -> str | None:
    """The text of a file of keys; None if there is no file. An empty one is damaged, not missing."""
    if not os.path.lexists(path):
        return None
    _refuse_strange(path.parent, closed=0o022)
    _refuse_strange(path, closed=closed)
    return read_file(path)


def _refuse_strange(path: Path, *, closed: int) -> None:
    """Refuse a link, what belongs to another user, and what gives others one of the rights in `closed`."""
    found = path.lstat()
    mode = f"{0o700 if stat.S_ISDIR(found.st_mode) else 0o600:o}"
    wrong, hint = (
        ("is a symbolic link", "Put the file itself there.") if stat.S_ISLNK(found.st_mode)
        else ("belongs to another user", "Move it away: keys must be your own.") if found.st_uid != os.geteuid()
        else ("can be read or changed by others", f"Run `chmod {mode} {path}`.") if found.st_mode & closed
        else (None, None)
    )  # fmt: skip
    if wrong is not None:
        raise ConfigError(f"{path} {wrong}, so it is not used.", hint=hint)
