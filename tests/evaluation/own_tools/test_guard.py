"""The guard refuses what is not on this machine, in whatever form it is named."""

from __future__ import annotations

import pytest

from perdure.evaluation.own_tools.guard import Guard, TargetRefused, hosts_in, is_local


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", ""])
def test_this_machine_is_local(host: str) -> None:
    assert is_local(host)


@pytest.mark.parametrize(
    "host", ["api.example", "10.0.0.1", "0.0.0.0", "::", "::ffff:10.0.0.1", "localhost.example", "127.0.0.1.example"]
)
def test_another_machine_is_not_local(host: str) -> None:
    assert not is_local(host)


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("socket.getaddrinfo", ("api.example", 443, 0, 1, 0)),
        ("socket.getaddrinfo", (b"api.example", 443, 0, 1, 0)),
        ("socket.connect", (None, ("10.0.0.1", 443))),
        ("socket.connect", (None, ("fe80::1%eth0", 443, 0, 2))),
        ("socket.sendto", (None, ("10.0.0.1", 53))),
        ("subprocess.Popen", ("curl", ["curl", "https://user@api.example:8443/x"], None, None)),
        ("subprocess.Popen", ("git", ["git", "push", "git@api.example:org/shop"], None, None)),
        ("os.system", ("curl http://[2001:db8::1]/",)),
        ("os.posix_spawn", ("curl", ["curl", "ftp://api.example"], None)),
    ],
)
def test_a_target_beyond_this_machine_is_refused(event: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(TargetRefused):
        Guard([]).hear(event, arguments)


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("socket.getaddrinfo", ("api.example", 443, 0, 1, 0)),
        ("socket.connect", (None, ("127.0.0.1", 443))),
        ("socket.connect", (None, "/run/service.sock")),
        ("subprocess.Popen", ("curl", ["curl", "http://localhost:8080/x"], None, None)),
        ("open", ("https://other.example", "r", 0)),
    ],
)
def test_an_allowed_target_does_not_raise(event: str, arguments: tuple[object, ...]) -> None:
    Guard(["api.example"]).hear(event, arguments)


def test_addresses_in_settings_are_found() -> None:
    assert hosts_in("postgres://me:secret@db.example:5432/x and http://127.0.0.1:1") == ["db.example", "127.0.0.1"]
    assert hosts_in("{sink}/orders") == []
