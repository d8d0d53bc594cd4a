"""Artifacts over HTTP: downloads, ranges, and who may have them."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from perdure.artifacts.directory import save
from perdure.errors import ConfigError
from perdure.server.operations.artifacts import read_range
from tests.server.support.service import Service
from tests.server.test_session_operations import start

PAGE = "<script>alert(1)</script>" * 5000


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (None, None),
        ("bytes=0-3", (0, 3)),
        ("bytes=6-", (6, 9)),
        ("bytes=-4", (6, 9)),
        ("bytes=-40", (0, 9)),
        ("bytes=2-99", (2, 9)),
        ("bytes=-", None),
        ("bytes=0-1,3-4", None),
        ("lines=0-1", None),
    ],
)
def test_a_range_is_a_part_of_the_bytes(given: str | None, part: tuple[int, int] | None) -> None:
    assert read_range(given, 10) == part


@pytest.mark.parametrize("given", ["bytes=10-", "bytes=5-4", "bytes=-0"])
def test_a_range_outside_is_refused(given: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_range(given, 10)
    assert caught.value.details["status"] == 416


@pytest.mark.databases("sqlite")
def test_an_artifact_is_a_download_for_who_sees_its_session(
    service: Service, owner: httpx.Client, folder: Path
) -> None:
    start(owner, "service_end", "e", arguments={"value": PAGE}, queue="a")
    (found,) = owner.get("/v1/artifacts").json()["items"]
    path = f"/v1/artifacts/{found['digest']}"
    got = owner.get(path)
    assert (got.status_code, PAGE in got.text) == (200, True)
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in got.headers["content-security-policy"]
    part = owner.get(path, headers={"Range": "bytes=2-5"})
    assert (part.status_code, part.content) == (206, got.content[2:6])
    assert part.headers["content-range"] == f"bytes 2-5/{found['size']}"
    assert owner.get(path, headers={"Range": "bytes=999999999-"}).status_code == 416
    assert owner.get(path[:-50]).status_code == 200  # who sees everything may give a prefix
    assert service.client("bob", "operator", scopes=("queue:a",)).get(path).status_code == 200
    assert service.client("bob", "operator", scopes=("queue:a",)).get(path[:-50]).status_code == 404
    assert service.client("eve", "operator", scopes=("queue:b",)).get(path).status_code == 404
    assert service.client("eve", "operator", scopes=("queue:b",)).get("/v1/artifacts").json()["items"] == []


@pytest.mark.databases("sqlite")
def test_an_artifact_that_the_client_has_is_not_sent(owner: httpx.Client) -> None:
    start(owner, "service_end", "e", arguments={"value": PAGE})
    (found,) = owner.get("/v1/artifacts").json()["items"]
    path, tag = f"/v1/artifacts/{found['digest']}", f'"{found["digest"]}"'
    assert owner.get(path).headers["etag"] == tag
    for given in (tag, f'"other", W/{tag}', "*"):
        answer = owner.get(path, headers={"If-None-Match": given, "Range": "bytes=0-3"})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
    assert owner.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
    part = {"Range": "bytes=0-3"}
    assert owner.get(path, headers=part | {"If-Range": tag}).status_code == 206
    for other in ('"other"', f"W/{tag}", "Wed, 21 Oct 2015 07:28:00 GMT"):
        whole = owner.get(path, headers=part | {"If-Range": other})
        assert (whole.status_code, len(whole.content)) == (200, found["size"])


def bytes_read() -> int:
    """What this process has read from files so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


@pytest.mark.databases("sqlite")
def test_ranges_are_read_from_the_file_and_checked_once(service: Service, owner: httpx.Client) -> None:
    uid = str(start(owner, "service_inbox", "m", arguments={"label": "x"})["uid"])
    directory = service.app.state.runtime.values.directory
    content = bytes(range(256)) * 40_000
    digest = service.wait(save(service.store, directory, uid, content, by="olga"))
    path = f"/v1/artifacts/{digest}"
    assert owner.get(path, headers={"Range": "bytes=5-9"}).content == content[5:10]
    before = bytes_read()
    for first in range(0, len(content), len(content) // 10):
        part = owner.get(path, headers={"Range": f"bytes={first}-{first + 3}"})
        assert (part.status_code, part.content) == (206, content[first : first + 4])
    assert bytes_read() - before < len(content)
    file = directory.folder / digest[:2] / digest
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    with file.open("r+b") as changed:
        changed.write(b"x")
    os.utime(file, ns=times)
    refused = owner.get(path, headers={"Range": "bytes=5-9"})
    assert (refused.status_code, refused.json()["code"]) == (409, "damaged")
