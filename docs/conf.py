"""How Sphinx builds the documentation site: `make docs` writes it to `build/docs`, and `make check` checks its links.

The source folder is the repository, so that the pages beside `docs/` are part of the site and of the check. Pages are
plain Markdown that also reads well on GitHub; the order of the pages stands here and not in them.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
NAVIGATION = {
    "Start": ["how-to/newcomer", "tutorial", "guarantees", "security"],
    "How-to guides": [
        "how-to/write-a-program",
        "how-to/choose-a-replay-rule",
        "how-to/write-a-probe-and-an-undo",
        "how-to/crash-sweep",
        "how-to/terminal",
        "how-to/interrupt",
        "how-to/operate-many-workers",
        "how-to/serve",
        "how-to/stuck-sessions",
        "how-to/queues",
        "how-to/schedules",
        "how-to/deploy-new-versions",
        "how-to/approvals",
        "how-to/sessions",
        "how-to/recipes",
        "how-to/move-a-session",
        "how-to/json-stream",
        "how-to/record",
        "how-to/branches",
        "how-to/postgres",
        "how-to/limits",
        "how-to/deploy",
        "how-to/write-an-agent",
        "how-to/agent-tools",
        "how-to/mcp",
        "how-to/context",
        "how-to/sandbox",
        "how-to/logging",
    ],
    "Reference": ["reference/cli", "reference/settings", "reference/errors", "reference/python"],
    "Project": [
        "/README",
        "/ARCHITECTURE",
        "internals",
        "scale",
        "figures",
        "decisions/README",
        "compatibility",
        "releasing",
        "/CONTRIBUTING",
        "/AGENTS",
        "/SECURITY",
        "/CHANGELOG",
    ],
}

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
    """Append the pages to the root document in their order. A page that is missing here fails the build."""
    if name == root_doc:
        for caption, pages in NAVIGATION.items():
            source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
    if name == "docs/decisions/README":
        source[0] += "\n\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_navigation)
