"""Fetching a page. Nothing is changed, so it may be fetched again.

The address is resolved once, checked, and then connected to, so a name that resolves differently the second time has no
effect. Every redirect is a new connection with the same check. Proxies of the environment are not used, because the
address behind a proxy could not be checked.
"""

from __future__ import annotations

import html
import http.client
import ipaddress
import re
import socket
import ssl
import threading
from typing import Self
from urllib.parse import quote, urljoin, urlsplit

from perdure.agent.files.workspace import here
from perdure.agent.tools.result import ToolResult, short, text_result
from perdure.errors import NotDone
from perdure.runtime.definitions.tool import tool

LARGEST = 2_000_000
SECONDS = 30.0
HOPS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
HEADERS = {"User-Agent": "perdure", "Accept": "*/*", "Accept-Encoding": "identity", "Connection": "close"}
_NAT64, _LOCAL_NAT64 = ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48")
_COMPATIBLE = ipaddress.ip_network("::/96")  # an old form for IPv4 addresses
TEXTUAL = ("json", "xml", "javascript", "yaml", "toml", "csv", "form-urlencoded")


@tool(replay="pure", retry=1, reach="outside")
def fetch_url(url: str) -> ToolResult:
    """Fetch an http or https address and return its text; HTML is reduced to the visible text."""
    if not here().network:
        raise NotDone("This session may not use the network.")
    with _Deadline() as watch:
        try:
            said = _fetch(url, watch)
            if watch.over:  # what arrived until then looks like a complete response
                raise TimeoutError
            return said
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = f"it took longer than {SECONDS:g} s" if watch.over else str(error) or type(error).__name__
            raise NotDone(f"{short(url)} cannot be fetched: {short(why)}.") from None


def _fetch(url: str, watch: _Deadline) -> ToolResult:
    at = url
    for _ in range(HOPS + 1):
        at = _check_url(at)
        connection, target = _connection(at, watch)
        try:
            connection.request("GET", target, headers=HEADERS)
            answer = connection.getresponse()
            to = answer.headers.get("Location")
            if answer.status not in REDIRECTS or to is None:
                return _result(at, answer)
            at = urljoin(at, to)
        finally:
            connection.close()
    raise NotDone(f"{short(url)} redirects more than {HOPS} times.")


def _check_url(url: str) -> str:
    """A usable address, with characters that are not ASCII quoted."""
    plain = quote(url, safe="%/:=&?~#+!$,;'@()*[]-._")
    try:
        parts = urlsplit(plain)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or urlsplit(plain).netloc != urlsplit(url).netloc:
        raise NotDone(f"{short(url)} is not an http or https address.")
    return plain


def _connection(url: str, watch: _Deadline) -> tuple[http.client.HTTPConnection, str]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme == "http":
        return _Plain(host, parts.port or 80, watch), target
    return _Secure(host, parts.port or 443, watch), target


class _Plain(http.client.HTTPConnection):
    def __init__(self, host: str, port: int, watch: _Deadline) -> None:
        super().__init__(host, port)
        self._watch = watch

    def connect(self) -> None:
        self.sock = self._watch.connect(self.host, self.port)


class _Secure(_Plain):
    default_port = 443

    def connect(self) -> None:
        super().connect()
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)
        self._watch.sockets.append(self.sock)


class _Deadline:
    """Closes every open connection when time is up: a server that sends a byte now and then would never end."""

    def __init__(self) -> None:
        self.over = False
        self.sockets: list[socket.socket] = []
        self._timer = threading.Timer(SECONDS, self._end)

    def __enter__(self) -> Self:
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        self.over = True
        for one in self.sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect to an address that was checked, and to no other."""
        if self.over:
            raise TimeoutError
        failure: OSError = OSError(f"{host} has no address")
        for address in _addresses(host, port):
            try:
                made = socket.create_connection((address, port), timeout=SECONDS)
            except OSError as error:
                failure = error
                continue
            self.sockets.append(made)
            return made
        raise failure


def _addresses(host: str, port: int) -> list[str]:
    found = [str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not here().private_network:
        for one in found:
            if not _is_public(one):
                raise NotDone(f"{short(host)} is at {one}, which is not a public address.")
    return found


def _is_public(address: str) -> bool:
    """Whether an address is public, also in the forms in which IPv6 carries an IPv4 address."""
    one = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(one, ipaddress.IPv6Address):
        if one.is_site_local or one in _LOCAL_NAT64:
            return False
        inner = [one.ipv4_mapped, one.sixtofour, *(one.teredo or ())]
        carries = one.ipv4_mapped is not None
        if one in _NAT64 or one in _COMPATIBLE:
            inner.append(ipaddress.IPv4Address(int(one) & 0xFFFFFFFF))
            carries = True
        if any(four is not None and not _is_public(str(four)) for four in inner):
            return False
        if carries:
            return True
    return one.is_global and not one.is_multicast


def _result(at: str, answer: http.client.HTTPResponse) -> ToolResult:
    """A response as text. A 404 is a response too."""
    content = answer.read(LARGEST + 1)
    kind = answer.headers.get_content_type()
    about = f"{answer.status} {answer.reason}, {kind}, from {at}"
    if len(content) > LARGEST:
        about += f"; only the first {LARGEST} bytes"
    failed, origin = answer.status >= 300, f"web:{at}"
    encoding = answer.headers.get("Content-Encoding", "identity")
    if encoding != "identity" or not (kind.startswith("text/") or any(word in kind for word in TEXTUAL)):
        return ToolResult(
            f"{short(about, 600)}\nThe content is not text, so it is not shown.", origin=origin, failed=failed
        )
    text = _decode(content[:LARGEST], answer.headers.get_content_charset())
    if kind in ("text/html", "application/xhtml+xml"):
        text = _html_text(text)
    return text_result(f"{short(about, 600)}\n\n{text}", origin=origin, failed=failed)


def _decode(content: bytes, charset: str | None) -> str:
    try:
        return content.decode(charset or "utf-8", "replace")
    except LookupError:
        return content.decode(errors="replace")


_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
_HIDDEN = frozenset({"script", "style", "noscript", "template", "svg"})
_INLINE = frozenset(
    {"a", "abbr", "b", "cite", "code", "em", "i", "kbd", "mark", "q", "s", "small", "span", "strong", "sub", "sup",
     "time", "u", "var"}
)  # fmt: skip


def _html_text(page: str) -> str:
    """Roughly the visible text of a page, with a line for every block.

    One pass from beginning to end, whatever the page holds: an element that is never closed hides the rest.
    """
    parts: list[str] = []
    at = 0
    while (opened := page.find("<", at)) >= 0:
        parts.append(html.unescape(page[at:opened]))
        at, said = _markup(page, opened)
        parts.append(said)
    parts.append(html.unescape(page[at:]))
    lines = (" ".join(line.split()) for line in "".join(parts).splitlines())
    return "\n".join(line for line in lines if line)


def _markup(page: str, opened: int) -> tuple[int, str]:
    """Where the text continues after a `<`, and the visible text for the markup there."""
    if page.startswith("<!--", opened):
        return _after(page, "-->", opened), ""
    if page.startswith(("<!", "<?"), opened):
        return _after(page, ">", opened), ""
    if (tag := _TAG.match(page, opened)) is None:
        return opened + 1, "<"
    name, end = tag[2].lower(), _after(page, ">", tag.end())
    if name in _HIDDEN and not tag[1] and page[end - 2 : end] != "/>":
        closing = re.compile(f"</{name}", re.IGNORECASE).search(page, end)
        end = len(page) if closing is None else _after(page, ">", closing.end())
    return end, "" if name in _INLINE else "\n"


def _after(page: str, mark: str, start: int) -> int:
    found = page.find(mark, start)
    return len(page) if found < 0 else found + len(mark)
