"""Fetching from a real server, and every way to reach an address that is not public."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from perdure.agent.files.workspace import Workspace, here
from perdure.agent.tools import fetch
from perdure.agent.tools.fetch import fetch_url
from perdure.errors import NotDone

Answer = Callable[[BaseHTTPRequestHandler], None]


class Site:
    """A server with a page for each test to write."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.over = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                site.pages.get(self.path, text(404, "text/plain", b"nothing here"))(self)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


def text(status: int, kind: str, body: bytes, **headers: str) -> Answer:
    def answer(to: BaseHTTPRequestHandler) -> None:
        to.send_response(status)
        to.send_header("Content-Type", kind)
        for name, value in headers.items():
            to.send_header(name, value)
        to.end_headers()
        try:
            to.wfile.write(body)
        except OSError:  # it was enough
            return

    return answer


def to(url: str) -> Answer:
    return text(302, "text/plain", b"", Location=url)


@pytest.fixture
def site(folder: Path) -> Iterator[Site]:
    made = Site()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    with Workspace(folder, session_uid="u", network=True, private_network=True).active():
        yield made
    made.over.set()
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_a_page_is_reduced_to_its_visible_text(site: Site) -> None:
    page = (
        "<html><head><title>T</title><style>b{}</style><script>evil()</script></head><body>"
        "<h1>Caf&eacute;</h1><p>one <b>two</b>\n three</p><ul><li>x</li><li>y</li></ul><br>end"
    )
    site.pages["/a?b=c"] = text(200, "text/html; charset=latin-1", page.encode("latin-1"))
    said = fetch_url(site.url + "/a?b=c#part")
    assert said.text.splitlines()[2:] == ["T", "Café", "one two", "three", "x", "y", "end"]
    assert said.origin == f"web:{site.url}/a?b=c#part"
    assert site.asked == ["/a?b=c"]


def test_plain_text_and_error_pages_are_returned(site: Site) -> None:
    site.pages["/j"] = text(200, "application/json", b'{"a": "\x1b[2J"}')
    assert fetch_url(site.url + "/j").text.endswith('{"a": "\\x1b[2J"}')
    said = fetch_url(site.url + "/none")
    assert said.failed
    assert "404" in said.text
    assert "nothing here" in said.text


def test_binary_content_is_not_shown(site: Site) -> None:
    site.pages["/png"] = text(200, "image/png", b"\x89PNG")
    site.pages["/gz"] = text(200, "text/plain", b"\x1f\x8b", **{"Content-Encoding": "gzip"})
    for path in ("/png", "/gz"):
        assert "not text" in fetch_url(site.url + path).text


def test_a_large_page_is_cut(site: Site) -> None:
    site.pages["/big"] = text(200, "text/plain", b"word\n" * 1_000_000)
    said = fetch_url(site.url + "/big")
    assert "only the first 2000000 bytes" in said.text
    assert len(said.text) < 60_000


def test_redirects_are_followed_up_to_a_limit(site: Site) -> None:
    site.pages |= {"/a": to("/b"), "/b": to(site.url + "/ç"), "/%C3%A7": text(200, "text/plain", b"there")}
    said = fetch_url(site.url + "/a")
    assert said.text.endswith("there")
    assert said.origin == f"web:{site.url}/%C3%A7"
    site.pages["/round"] = to("/round")
    with pytest.raises(NotDone, match="more than 5 times"):
        fetch_url(site.url + "/round")


@pytest.mark.parametrize(
    "where", ["file:///etc/passwd", "ftp://example.org/", "gopher://x/", "//", "data:text/plain,x"]
)
def test_a_redirect_to_something_else_is_not_followed(where: str, site: Site) -> None:
    site.pages["/a"] = to(where)
    with pytest.raises(NotDone):
        fetch_url(site.url + "/a")


def test_every_redirect_is_checked(site: Site) -> None:
    """The first address is allowed; by the second, private ones are not."""
    workspace = here()

    def forbid(answering: BaseHTTPRequestHandler) -> None:
        workspace.private_network = False
        to("/b")(answering)

    site.pages |= {"/a": forbid, "/b": text(200, "text/plain", b"secret")}
    with pytest.raises(NotDone, match="not a public address"):
        fetch_url(site.url + "/a")
    assert site.asked == ["/a"]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "[::]"],
)
def test_no_name_reaches_this_machine(host: str, site: Site) -> None:
    here().private_network = False
    with pytest.raises(NotDone):
        fetch_url(f"http://{host}:{site.server.server_port}/a")
    assert site.asked == []


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2606:4700::1111", True), ("::ffff:8.8.8.8", True), ("64:ff9b::808:808", True),
        ("10.1.2.3", False), ("192.168.0.1", False), ("172.16.0.1", False), ("169.254.169.254", False),
        ("100.64.0.1", False), ("224.0.0.1", False), ("255.255.255.255", False), ("fe80::1%eth0", False),
        ("fd00::1", False), ("::ffff:10.0.0.1", False), ("64:ff9b::a00:1", False), ("2002:7f00:1::", False),
        ("ff02::1", False),
    ],
)  # fmt: skip
def test_public_addresses_are_recognized(address: str, public: bool) -> None:
    assert fetch._is_public(address) is public


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "file:///etc/passwd", "http://", "http://a b/", "http://h:99999/", "http://h:0/", "javascript:1",
        "http://é.example/", "http://[::1/", "http://x\r\nHost: y/",
    ],
)  # fmt: skip
def test_only_http_addresses_are_fetched(url: str, site: Site) -> None:
    with pytest.raises(NotDone, match="not an http or https address"):
        fetch_url(url)


def test_without_network_nothing_is_requested(site: Site) -> None:
    here().network = False
    with pytest.raises(NotDone, match="may not use the network"):
        fetch_url(site.url)
    assert site.asked == []


@pytest.mark.slow
def test_an_endless_response_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "SECONDS", 0.5)

    def drip(answering: BaseHTTPRequestHandler) -> None:
        answering.send_response(200)
        answering.send_header("Content-Type", "text/plain")
        answering.end_headers()
        try:
            for _ in range(100):  # ten times as long as it may take
                site.over.wait(0.05)
                answering.wfile.write(b".")
        except OSError:
            return

    site.pages["/drip"] = drip
    with pytest.raises(NotDone, match="took longer"):
        fetch_url(site.url + "/drip")


def test_an_unreachable_or_untrusted_server_is_reported(site: Site) -> None:
    with pytest.raises(NotDone, match="cannot be fetched"):
        fetch_url("http://127.0.0.1:1/")
    with pytest.raises(NotDone, match="cannot be fetched"):
        fetch_url(site.url.replace("http:", "https:"))
    assert site.asked == []
