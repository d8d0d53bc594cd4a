"""The session of what a command changes, where its id alone does not tell."""

from __future__ import annotations

import click

session_option = click.option("--session", metavar="ID", help="Its session, if several sessions have one of this id.")
