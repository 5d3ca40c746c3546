"""`stet`: the commands of both halves under one name. Imports what a command needs only when it is called."""

import logging
import sys
from pathlib import Path

import click

from speculation import logs
from speculation.cli import LAZY, LazyGroup

LEVELS = ["debug", "info", "warning", "error"]


COMMANDS = {
    "rewrite": ("lsp_server.command", "rewrite"),
    "verify": ("lsp_server.verify", "verify"),
    "doctor": ("lsp_server.doctor", "doctor"),
}


@click.group(cls=LazyGroup, lazy={**LAZY, **COMMANDS})
@click.version_option(package_name="stet-lsp", prog_name="stet")
def main() -> None:
    """Rewrite code with a local model: most of it is copied, and only checked."""


@main.command()
@click.option(
    "--stdio", is_flag=True, help="Speak on stdin and stdout; that is the only way, the option is for editors."
)
@click.option("--log-file", type=click.Path(path_type=Path), help="Log there instead of to stderr.")
@click.option(
    "--log-level", type=click.Choice(LEVELS), default="warning", show_default=True, help="What is logged at least."
)
def lsp(stdio: bool, log_file: Path | None, log_level: str) -> None:
    """Run the language server; editors start it."""
    try:
        logs.begin(getattr(logging, log_level.upper()), log_file)
    except OSError as error:
        raise click.UsageError(f"can't log to {log_file}: {error.strerror}") from None
    # pygls logs whole messages, the user's text among them; what matters of it the server logs itself.
    logging.getLogger("pygls").setLevel(logging.WARNING)
    logging.getLogger("pygls.protocol.json_rpc").setLevel(logging.CRITICAL)
    for noisy in ("httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    if sys.stdin.isatty():
        click.echo("stet lsp: waiting for an editor on stdin (it starts this by itself; stop it with Ctrl-C)", err=True)
    from lsp_server.server import serve_stdio  # pygls takes half a second; other commands needn't wait for it.

    serve_stdio()


if __name__ == "__main__":
    main()
