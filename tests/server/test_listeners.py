"""Where the service listens, and where it refuses to."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import ConfigError
from perdure.server.listeners import ListenOptions, check, is_loopback, open_listeners


@pytest.mark.parametrize(
    ("options", "has_tokens", "said"),
    [
        ({}, False, None),
        ({"host": "::1"}, False, None),
        ({"host": "127.9.9.9", "behind_proxy": True}, False, None),
        ({"host": "0.0.0.0"}, False, "before there is a token"),
        ({"host": "0.0.0.0", "behind_proxy": True}, False, "before there is a token"),
        ({"host": "::"}, True, "without TLS"),
        ({"host": "example.org"}, True, "without TLS"),
        ({"host": "0.0.0.0", "behind_proxy": True}, True, None),
        ({"host": "0.0.0.0", "certificate": "CERT", "key": "CERT"}, True, None),
        ({"host": "0.0.0.0", "certificate": "CERT", "key": "CERT"}, False, "before there is a token"),
        ({"certificate": "CERT"}, True, "both a certificate and its key"),
        ({"certificate": "CERT", "key": "missing"}, True, "cannot be read"),
    ],
)
def test_listens_beyond_loopback_only_with_tokens_and_tls(
    options: dict[str, Any], has_tokens: bool, said: str | None, tmp_path: Path
) -> None:
    (tmp_path / "cert.pem").touch()
    options = {name: str(tmp_path / "cert.pem") if value == "CERT" else value for name, value in options.items()}
    if said is None:
        check(ListenOptions(**options), has_tokens=has_tokens)
        return
    with pytest.raises(ConfigError, match=said):
        check(ListenOptions(**options), has_tokens=has_tokens)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.1.example.org", "localhost.example.org", "10.0.0.1", ""])
def test_other_hosts_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_port_that_was_not_asked_for_may_be_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr("perdure.server.listeners.PORT", port)
        opened = open_listeners(ListenOptions(), folder / "s", has_tokens=False)
        assert (own := opened.tcp[0].getsockname()[1]) != port
        assert opened.notes == [f"Port {port} belongs to another process, so this service has port {own}."]
        opened.close()
        with pytest.raises(ConfigError, match=f"port {port}: Address already in use"):
            open_listeners(ListenOptions(port=port), folder / "s", has_tokens=False)
    assert not (folder / "s").exists()


def test_socket_of_a_dead_process_is_replaced(folder: Path) -> None:
    path = folder / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    first = open_listeners(ListenOptions(port=0), path, has_tokens=False)
    assert first.addresses[1:] == [f"unix:{path}"]
    second = open_listeners(ListenOptions(port=0), path, has_tokens=False)  # the default one is left out
    assert (second.unix, len(second.addresses)) == (None, 1)
    assert (first.notes, second.notes) == (
        [],
        ["Another service of this store has the Unix socket; this one has none."],
    )
    with pytest.raises(ConfigError, match="Another process listens"):
        open_listeners(ListenOptions(port=0, socket=str(path)), folder / "t", has_tokens=False)
    second.close()
    first.close()
    assert not path.exists()


def test_socket_replaces_no_file_and_has_a_short_path(folder: Path) -> None:
    (folder / "file").write_text("kept")
    with pytest.raises(ConfigError, match="a file that is no socket"):
        open_listeners(ListenOptions(port=0, socket=str(folder / "file")), folder / "s", has_tokens=False)
    assert (folder / "file").read_text() == "kept"
    long = folder / ("x" * 120)
    with pytest.raises(ConfigError, match="at most 107 bytes"):
        open_listeners(ListenOptions(port=0, socket=str(long)), folder / "s", has_tokens=False)
    opened = open_listeners(ListenOptions(port=0), long, has_tokens=False)
    assert opened.unix is None
    assert opened.notes == [f"This service has no Unix socket: {long} is longer than 107 bytes."]
    opened.close()
    assert os.listdir(folder) == ["file"]
