"""Images, documents and text files in prompts."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Agent, File
from perdure.errors import ConfigError, Conflict
from perdure.interchange.export import export
from perdure.interchange.import_ import import_bundle
from perdure.runtime.definitions.prompt import LARGEST_IMAGE, LARGEST_TEXT, prompt_content
from perdure.store.store import open_store
from tests.agent.conftest import open_runtime
from tests.agent.models.conftest import Provider, model_server, provider  # noqa: F401 - fixtures
from tests.agent.support.conversation import RecordingModel

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
PDF = b"%PDF-1.7 " + b"x" * 100
pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    return path


@pytest.mark.databases("sqlite", "files")
async def test_image_is_stored_as_an_artifact_and_shown_to_the_model(target: str, picture: Path) -> None:
    model = RecordingModel(["A dot."])
    agent = Agent("looks", model=model, tools=[])
    async with open_runtime(target) as runtime:
        assert (await agent.run(["What is it?", picture], id="look", runtime=runtime)).output == "A dot."
        (stored,) = [one async for one in runtime.artifacts(session="look")]
        assert (stored.kind, stored.size) == ("image/png", len(PNG))
        assert await runtime.artifact(stored.digest) == PNG
        picture.unlink()
        again = agent.bind(["What is it?", File(data=PNG, name=str(picture))], once=True)
        assert (await runtime.start(again, id="look")).id == "look"
        with pytest.raises(Conflict):
            await runtime.start(agent.bind(["What is it?", File(data=PNG + b"x", name=str(picture))], True), id="look")
    (turn,) = model.requests[0].turns
    assert turn.text.startswith("What is it?\n\n[attached: ")
    assert [(one.media_type, one.data) for one in turn.files] == [("image/png", PNG)]


@pytest.mark.databases("postgres")
async def test_files_need_a_folder_for_artifacts(target: str, picture: Path, tmp_path: Path) -> None:
    agent = Agent("looks", model=RecordingModel(["A dot."]), tools=[])
    async with open_runtime(target) as runtime:
        with pytest.raises(ConfigError, match="no folder for artifacts"):
            await agent.run(["What is it?", picture], id="look", runtime=runtime)
    async with open_runtime(target, artifacts=tmp_path / "shared") as runtime:
        assert (await agent.run(["What is it?", picture], id="look", runtime=runtime)).output == "A dot."


async def test_message_with_an_image_reaches_the_model(target: str, picture: Path) -> None:
    model = RecordingModel(["Hello.", "A dot."])
    agent = Agent("looks", model=model, tools=[])
    async with open_runtime(target) as runtime:
        await runtime.start(agent.bind("Hello."), id="talk")
        await runtime.run("talk")
        for _ in range(2):  # the same message id is the same message
            await runtime.send("talk", ["And this?", picture], message_id="m-1")
        await runtime.run("talk")
        await runtime.send("talk", [1, 2])  # a value, not a prompt
    assert [one.data for turn in model.requests[1].turns for one in turn.files] == [PNG]


async def test_missing_artifact_is_only_mentioned(target: str, picture: Path) -> None:
    model = RecordingModel(["Hello.", "Gone."])
    agent = Agent("looks", model=model, tools=[])
    async with open_runtime(target) as runtime:
        await runtime.start(agent.bind(["Look.", picture]), id="talk")
        await runtime.run("talk")
        (stored,) = [one async for one in runtime.artifacts(session="talk")]
        assert runtime.values.directory is not None
        runtime.values.directory.remove(stored.digest)
        await runtime.send("talk", "And now?")
        await runtime.run("talk")
    assert [one.data for turn in model.requests[1].turns for one in turn.files] == [b""]
    assert "[attached: " in model.requests[1].turns[0].text


async def test_files_are_sent_in_the_format_of_each_provider(target: str, picture: Path, provider: Provider) -> None:  # noqa: F811
    provider.says("Seen.")
    agent = Agent("looks", model=provider.model(), tools=[])
    await agent.run(["What is it?", picture, File(data=PDF, name="b.pdf")], store=target)
    (message,) = [one for one in provider.sent[0]["messages"] if one["role"] == "user"]
    image, document, text = message["content"]
    data, more = b64encode(PNG).decode(), b64encode(PDF).decode()
    if provider.format == "anthropic":
        assert image == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
        assert document["type"] == "document"
        assert document["source"]["data"] == more
    else:
        assert image == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        assert document["file"] == {"filename": "b.pdf", "file_data": f"data:application/pdf;base64,{more}"}
    assert text["text"].startswith("What is it?\n\n[attached: ")


async def test_files_survive_export_and_import(tmp_path: Path, picture: Path) -> None:
    model = RecordingModel(["A dot.", "Still a dot."])
    agent = Agent("looks", model=model, tools=[])
    async with open_runtime(str(tmp_path / "one.db")) as runtime:
        view = await runtime.start(agent.bind(["What is it?", picture]), id="look")
        await runtime.run("look")
        export(runtime.store, view.uid, tmp_path / "b", by="ada", artifacts=runtime.values.directory)
    async with open_runtime(str(tmp_path / "two.db")) as runtime:
        import_bundle(runtime.store, tmp_path / "b", by="ada", id="copy", artifacts=runtime.values.directory)
        await runtime.send("copy", "Look again.")
        await runtime.run("copy")
    assert [one.data for turn in model.requests[-1].turns for one in turn.files] == [PNG]


def test_text_file_becomes_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember\n")
    content, files = prompt_content(["Read this.", tmp_path / "notes.txt"])
    assert isinstance(content, str)
    assert content.startswith("Read this.\n\n")
    assert "\nremember\n--- end file " in content
    assert files == ()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b"\x00\x01\x02", "neither an image, a PDF document nor text"),
        (b"\xff\xfe\x00a", "neither an image"),
        (b"a" * (LARGEST_TEXT + 1), "more than 256 KiB"),
        (PNG + bytes(LARGEST_IMAGE), "more than 5,120 KiB"),
    ],
    ids=["empty", "binary", "not UTF-8", "long text", "large image"],
)
def test_file_that_cannot_be_sent_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        File(data=data, name="x")


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo"])
def test_path_that_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(ConfigError, match="cannot be sent"):
        perdure.File(path)


def test_a_file_of_the_open_store_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "perdure.db"), pytest.raises(ConfigError, match="it is a file of the store"):
        perdure.File(tmp_path / "perdure.db")


@pytest.mark.parametrize("given", [[1], [b"x"], [None], None, 5])
def test_prompt_of_other_things_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="A prompt cannot"):
        prompt_content(given)


def test_type_is_read_from_the_content_and_not_from_the_name() -> None:
    assert File(data=PNG, name="notes.txt").media_type == "image/png"
    assert File(data=b"RIFF1234WEBPx").media_type == "image/webp"
    assert File(data=b"\xff\xd8\xff\xe0x").media_type == "image/jpeg"
    assert File(data=b"GIF89a").media_type == "image/gif"
