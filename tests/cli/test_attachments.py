"""Files that a message names as `@path`: what is attached, what stays text, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.cli.attachments import LARGEST, attach_files
from perdure.errors import ConfigError
from perdure.runtime.definitions.prompt import File
from perdure.store.store import open_store


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / "src").mkdir(parents=True)
    (made / "a.py").write_text("x = 1\n")
    (made / "src" / "two words.txt").write_text("both")
    return made


def compose(text: str, place: Path) -> tuple[str, list[str]]:
    noted: list[str] = []
    message = attach_files(text, place, noted.append)
    assert isinstance(message, str)
    return message, noted


@pytest.mark.parametrize(
    "text", ["look at @a.py", "@a.py: why?", "(see @a.py), please", "@./a.py", "@a.py @a.py @a.py."]
)
def test_named_file_is_attached_once(text: str, place: Path) -> None:
    sent, noted = compose(text, place)
    assert sent.startswith(text + "\n\nThe user attached this text (6 bytes, from ")
    assert (sent.count("x = 1\n--- end attachment"), len(noted)) == (1, 1)


def test_quoted_path_may_contain_spaces(place: Path) -> None:
    sent, noted = compose('see @"src/two words.txt" and @a.py', place)
    assert noted == ["attached: src/two words.txt, 4 bytes", "attached: a.py, 6 bytes"]
    assert "both\n--- end" in sent


@pytest.mark.parametrize(
    "text",
    [
        "mail ada@a.py or @ada",
        "use @dataclass and @pytest.fixture",
        "upgrade @types/node and @babel/core",
        "list @src",
        "a @ b @",
        "@" + "x" * 5000,
        "import x from '@/a.ts'",
        r"\@nothing stays",
        "@~no-such-user",
    ],
)
def test_word_that_names_no_file_stays_text(text: str, place: Path) -> None:
    assert compose(text, place) == (text, [])


def test_escaped_name_is_not_attached(place: Path) -> None:
    assert compose(r"\@a.py is a name", place) == ("@a.py is a name", [])


@pytest.mark.parametrize("word", ["@src/no.py", "@./no", "@/no/such", "@../no", '@"no file"', "@~/no-such-file"])
def test_missing_path_is_refused(word: str, place: Path) -> None:
    with pytest.raises(ConfigError, match=r"There is no file .* nothing was sent") as refused:
        compose(f"see {word} please", place)
    assert rf"\{word}" in refused.value.hint


def test_unsuitable_files_are_refused_with_a_reason(place: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    (place / "link").symlink_to(tmp_path / "secret")
    (place / "large").write_bytes(b"x" * (LARGEST + 1))
    (place / "half").write_bytes(b"x" * (LARGEST // 2 + 1))
    (place / "other").write_bytes(b"y" * (LARGEST // 2 + 1))
    (place / "picture").write_bytes(b"\x89PN\0")
    (place / "latin").write_bytes(b"caf\xe9")
    os.mkfifo(place / "pipe")
    refused = {
        "@link": "outside of",
        "@large": "more than 256 KiB",
        "@half @other": "more than 256 KiB together",
        "@picture": "not a text file",
        "@latin": "not a text file",
        "@pipe": "not a regular file",
    }
    for text, why in refused.items():
        with pytest.raises(ConfigError, match=why):
            compose(text, place)
    assert "s3cret" in compose("@../secret", place)[0]
    assert "s3cret" in compose(f"@{tmp_path}/secret", place)[0]


@pytest.mark.parametrize("name", ["perdure.db", "perdure.db-wal", "perdure.db-shm", "link"])
def test_a_file_of_the_open_store_is_not_opened(place: Path, name: str) -> None:
    """Closing it would release the locks that SQLite holds on it for this process."""
    with open_store(place / "perdure.db"):
        os.link(place / "perdure.db", place / "link")
        with pytest.raises(ConfigError, match="it is a file of the store that is open"):
            compose(f"@{name}", place)


def test_image_is_attached_as_a_file(place: Path) -> None:
    content = b"\x89PNG\r\n\x1a\n" + bytes(300 << 10)  # larger than a text may be
    (place / "picture.png").write_bytes(content)
    noted: list[str] = []
    message = attach_files("what is in @picture.png and @a.py?", place, noted.append)
    assert isinstance(message, list)
    text, file = message
    assert str(text).startswith("what is in @picture.png and @a.py?\n\nThe user attached this text (6 bytes")
    assert isinstance(file, File)
    assert (file.name, file.media_type, file.data) == ("picture.png", "image/png", content)
    assert noted == ["attached: picture.png, 307208 bytes", "attached: a.py, 6 bytes"]
