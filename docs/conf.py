"""How Sphinx builds the documentation site: `make docs` writes it to `build/docs`, and `make check` checks its links.

The source folder is the repository, so that the pages beside `docs/` are part of the site and of the check. Pages are
plain Markdown that also reads well on GitHub; the lists of `docs/README.md` are the navigation.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
START = ("how-to/newcomer", "tutorial", "guarantees", "security")
REPOSITORY = ("/README", "/CONTRIBUTING", "/AGENTS", "/CHANGELOG")
SECTION = re.compile(r"^(?P<caption>[A-Z][^\n]*):\n\n(?P<links>(?:- .*\n(?:  .*\n)*)+)", re.MULTILINE)
LINK = re.compile(r"^- \[[^]]*\]\((?P<page>[^)#]+)\.md\)", re.MULTILINE)

project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"].capitalize()
author = "The Perdure authors"
extensions = ["myst_parser", "sphinxcontrib.mermaid"]
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [".*", "benchmarks", "build", "dist", "examples", "src", "tests", "tools"]
root_doc = "docs/README"

nitpicky = True
suppress_warnings = ["config.cache"]
myst_heading_anchors = 4  # links to headings, as GitHub makes them
myst_fence_as_directive = ["mermaid"]
myst_links_external_new_tab = False

html_theme = "furo"
html_title = project
html_show_sphinx = False
html_copy_source = False
templates_path = ["templates"]
html_additional_pages = {"index": "index.html"}  # a server shows this first; it leads to the root document


def add_navigation(_: Sphinx, name: str, source: list[str]) -> None:
    """Append the pages to the root document, in the order of its own lists. A page that they miss fails the build."""
    if name == root_doc:
        trees = [("Start", [*START])]
        trees += [(one["caption"].split(",")[0], LINK.findall(one["links"])) for one in SECTION.finditer(source[0])]
        trees.append(("Repository", [*REPOSITORY]))
        listed: set[str] = set()
        for caption, pages in trees:
            new = [page for page in (_page(one) for one in pages) if page not in listed]
            listed.update(new)
            source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(new) + "\n```\n"
    if name in ("docs/decisions/README", "docs/evaluation/README"):
        published = "results/README\nresults/*/report\n" if name == "docs/evaluation/README" else ""
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:glob:\n\n[0-9a-z]*\n{published}```\n"


def _page(link: str) -> str:
    """A link of the root document as Sphinx names the page."""
    return "/" + link.removeprefix("../") if link.startswith("../") else link


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_navigation)
