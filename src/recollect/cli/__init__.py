"""The command line: one short function per command, each parses, calls Memory and shows what came back."""

from __future__ import annotations

import io
import logging
import sys
from importlib import metadata
from typing import Annotated

import typer

from recollect.cli.brief import brief, compress
from recollect.cli.chat import chat
from recollect.cli.demo import DEMO_DATABASE, demo
from recollect.cli.erase import erase
from recollect.cli.evaluate import bench, tune
from recollect.cli.files import backup, export, import_, restore
from recollect.cli.log import add, conversations, history, stats
from recollect.cli.maintenance import doctor, rebuild, worker
from recollect.cli.options import command
from recollect.cli.profile import audit, consent, profile
from recollect.cli.recall import context, metrics, recall, similar
from recollect.cli.serve import keys, serve
from recollect.cli.settings import settings
from recollect.cli.topic import feedback, topic
from recollect.cli.topics import topics

__all__ = ["app", "main"]

app = typer.Typer(
    name="recollect",
    help="A lossless memory for LLM chat applications.",
    no_args_is_help=True,
    rich_markup_mode=None,  # help is plain text, the same on paper, in a pipe and in the docs
    pretty_exceptions_enable=False,  # a traceback with locals would show what people said
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

for function in (
    chat, add, history, conversations, recall, context, similar, brief, compress, topics, topic, feedback, profile,
    consent, audit, stats, metrics, demo, import_, export, backup, restore, erase, rebuild, worker, tune, bench,
    settings, doctor, serve, keys,
):  # fmt: skip
    lenient = {"ignore_unknown_options": function is feedback}  # -1 is a value there
    run = command(function, db=DEMO_DATABASE if function is demo else None)
    app.command(function.__name__.rstrip("_"), context_settings=lenient)(run)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"recollect {metadata.version('recollect')}")
        raise typer.Exit


@app.callback()
def recollect(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A lossless memory for LLM chat applications."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")  # a pipe may have the locale's encoding
    logging.getLogger("recollect").addHandler(logging.NullHandler())  # commands tell what went wrong themselves
    app(prog_name="recollect")
