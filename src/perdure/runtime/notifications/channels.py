"""The channels that a process can send notifications to, as its settings describe them.

A row of the store only names a channel. Addresses and commands come from the settings of the process that sends, and
secrets are references which are resolved for each attempt, so that one can be replaced while the process runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from perdure.domain.notification import ChannelKind, check_topics
from perdure.errors import ConfigError
from perdure.ids import check_name, decode
from perdure.secrets import redaction
from perdure.secrets.reference import check_reference, read_value

MOST_SECRETS = 2  # the new one and the old one, while receivers change over
SHORTEST_SECRET = 16  # characters
_ADDRESS = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")


class NotSent(Exception):
    """An attempt to send has failed. The message is stored and shown: it has no address and no secret.

    `final`: another attempt would do harm, such as a second email to those who have the first one.
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class _Channel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    topics: tuple[str, ...] = ()  # what is sent there; empty: everything
    console: str | None = None  # the address of a service, whose pages notifications link to


class WebhookChannel(_Channel, frozen=True, kw_only=True, tag=str(ChannelKind.WEBHOOK)):
    """A signed request to an address. `private`: it may be an address of this machine or of a private network."""

    url: str
    secrets: tuple[str, ...]
    private: bool = False
    ca: str | None = None


class CommandChannel(_Channel, frozen=True, kw_only=True, tag=str(ChannelKind.COMMAND)):
    """A command, as a list of words; no shell reads them."""

    command: tuple[str, ...]


class EmailChannel(
    _Channel, frozen=True, kw_only=True, tag=str(ChannelKind.EMAIL), rename={"sender": "from"}
):  # `from` is a keyword
    """An email by SMTP. The address of the server is smtp:// (with STARTTLS) or smtps://."""

    to: tuple[str, ...]
    sender: str
    server: str
    password: str | None = None
    ca: str | None = None


Channel = WebhookChannel | CommandChannel | EmailChannel
KINDS = {
    WebhookChannel: ChannelKind.WEBHOOK,
    CommandChannel: ChannelKind.COMMAND,
    EmailChannel: ChannelKind.EMAIL,
}


def kind_of(channel: Channel) -> ChannelKind:
    return KINDS[type(channel)]


def read_channels(settings: str | Mapping[str, Any] | None) -> dict[str, Channel]:
    """The channels of the setting `notifications`: a table for each, or the same as JSON."""
    if not settings:
        return {}
    try:
        given = decode(settings) if isinstance(settings, str) else settings
        found: dict[str, Channel] = msgspec.convert(given, dict[str, Channel])
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ConfigError(
            f"The setting `notifications` cannot be used: {error}.", hint="docs/how-to/notifications.md has examples."
        ) from None
    for name, channel in found.items():
        try:
            _check(name, channel)
        except ConfigError as error:
            raise ConfigError(f"The channel {name!r:.80}: {error.message}", hint=error.hint) from None
    return found


def _check(name: str, channel: Channel) -> None:
    check_name("The channel", name)
    check_topics(channel.topics)
    if channel.console is not None and urlsplit(channel.console).scheme not in ("http", "https"):
        raise ConfigError("The address `console` is not one of a service.", hint="Write https://HOST.")
    match channel:
        case WebhookChannel():
            _check_webhook(channel)
        case CommandChannel():
            if not channel.command or not all(channel.command):
                raise ConfigError("The command is empty.", hint='Write it as a list: ["notify-send", "Perdure"].')
            if not os.path.isabs(channel.command[0]):
                raise ConfigError("The command is not an absolute path.", hint="Write the whole path of the program.")
        case EmailChannel():
            _check_email(channel)


def _check_webhook(channel: WebhookChannel) -> None:
    place = _address(channel.url, "url", ("https", "http"))
    if place.scheme == "http" and not channel.private:
        raise ConfigError(
            "The url is not https.", hint="http:// is for a private network; set private = true if it is one."
        )
    if place.username is not None or place.password is not None:
        raise ConfigError("The url has a user name.", hint="A receiver checks the signature of each request.")
    if not 1 <= len(channel.secrets) <= MOST_SECRETS:
        raise ConfigError("A webhook has one secret, or two while receivers change to another.", hint=HOW_SECRET)
    for one in channel.secrets:
        _check_reference(one)


def _check_email(channel: EmailChannel) -> None:
    place = _address(channel.server, "server", ("smtp", "smtps"))
    if place.password is not None:
        raise ConfigError("The address of the server has a password.", hint='Write password = "env:NAME".')
    if (channel.password is None) != (place.username is None):
        raise ConfigError("A login has a user and a password.", hint="Write smtps://USER@HOST and a password.")
    if channel.password is not None:
        _check_reference(channel.password)
    if not channel.to:
        raise ConfigError("There is no recipient.", hint='Write to = ["NAME@DOMAIN"].')
    for one in (*channel.to, channel.sender):
        if _ADDRESS.fullmatch(one) is None:
            raise ConfigError(f"{one!r:.80} is not an email address.", hint="Write only NAME@DOMAIN.")


def _address(text: str, what: str, schemes: tuple[str, ...]) -> SplitResult:
    try:
        place = urlsplit(text)
        place.port  # noqa: B018 - it raises if it is no number
    except ValueError:
        raise ConfigError(f"The {what} is not an address.") from None
    if place.scheme not in schemes or not place.hostname or not text.isascii() or not text.isprintable():
        raise ConfigError(f"The {what} is not an address.", hint=f"It begins with {' or '.join(schemes)}://.")
    return place


HOW_SECRET = 'Write secrets = ["env:NAME"], or ["file:/path"]; a secret itself is never a setting.'


def _check_reference(text: str) -> None:
    try:
        check_reference(text)
    except ConfigError as error:
        raise ConfigError(error.message, hint=HOW_SECRET) from None


def resolve_secret(reference: str) -> str:
    """The secret that a reference names, as it is now. From now on, it is known."""
    try:
        value = read_value(reference)
    except ConfigError as error:
        raise NotSent(f"a secret {error.details['why']}") from None
    redaction.add(reference, value)
    return value
