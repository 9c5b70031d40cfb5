"""The command line. Each command is one short function: it reads its options, calls `Memory` and prints the result."""

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
from recollect.cli.options import make_command
from recollect.cli.profile import audit, consent, profile
from recollect.cli.recall import context, metrics, recall, similar
from recollect.cli.serve import keys, serve
from recollect.cli.settings import settings
from recollect.cli.topic import feedback, topic
from recollect.cli.topics import topics

__all__ = ["app", "main"]

app = typer.Typer(
    name="recollect",
    no_args_is_help=True,
    rich_markup_mode=None,  # help is plain text, the same on a terminal, in a pipe and in the docs
    pretty_exceptions_enable=False,  # a traceback with local variables would show what people said
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

for function in (
    chat, add, history, conversations, recall, context, similar, brief, compress, topics, topic, feedback, profile,
    consent, audit, stats, metrics, demo, import_, export, backup, restore, erase, rebuild, worker, tune, bench,
    settings, doctor, serve, keys,
):  # fmt: skip
    parsing = {"ignore_unknown_options": function is feedback}  # -1 is a value there, not an option
    runnable = make_command(function, db=DEMO_DATABASE if function is demo else None)
    app.command(function.__name__.rstrip("_"), context_settings=parsing)(runnable)


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"recollect {metadata.version('recollect')}")
        raise typer.Exit


@app.callback()
def recollect(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A lossless memory for LLM chat applications.

    It stores every message of your chats and builds short prompts from what matters in them. Begin with
    `recollect demo`. `recollect COMMAND --help` explains a command.
    """


def main() -> None:
    """Run the command line with the arguments of the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")  # a pipe may have the locale's encoding
    logging.getLogger("recollect").addHandler(logging.NullHandler())  # commands print their errors themselves
    app(prog_name="recollect")
