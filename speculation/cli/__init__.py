"""The commands of this half, by name: they are imported only when called, so that `stet --help` stays fast.

Knows where each command lives and how an error is shown. Does not know what any command does.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from speculation.errors import StetError

LAZY: dict[str, tuple[str, str]] = {
    "models": ("speculation.cli.models", "models"),
    "engine": ("speculation.cli.engine", "engine"),
    "bench": ("speculation.cli.bench", "bench"),
    "stats": ("speculation.cli.stats", "stats"),
}
"""Command name -> (module, attribute). `stet` mounts these beside its own."""


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is looked up, and shows a StetError as one line, exit code 1."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, without importing them."""
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module, attribute = self.lazy[cmd_name]
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), f"{module}.{attribute} is not a click command"
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run; a StetError ends as one line."""
        try:
            return super().invoke(ctx)
        except StetError as error:
            # Named like the program, so that the line reads the same from `stet`, `python -m` and the tests.
            click.echo(f"stet: error: {error}", err=True)
            ctx.exit(1)
