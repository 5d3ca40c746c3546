"""`stet verify`: is what a rewrite writes really the target's own? The prompt is that of `stet rewrite`."""

import json
from pathlib import Path

import click

from lsp_server.command import ask, asks_for_rewrite, project_of
from lsp_server.project import Project
from speculation.cli.verify import show
from speculation.cli.verify import verify as check
from speculation.config import EngineConfig


@click.command()
@asks_for_rewrite
@click.option("--dtype", default="auto", show_default=True, help="float32, bfloat16, float16, int8 or int4.")
@click.option("--json", "as_json", is_flag=True, help="Print one object: figures and flips.")
@click.pass_context
def verify(
    ctx: click.Context,
    file: Path,
    instruction: str,
    lines: tuple[int, int] | None,
    model: str,
    no_project_files: bool,
    dtype: str,
    as_json: bool,
) -> None:
    """Rewrite FILE greedily, score each token again by a plain pass, report those that are not the first choice.

    FILE stays as it is. Loads the model itself and takes as long as plain decoding. Exit status 1 when a token is
    neither the first choice nor a near-tie. Sampling (a temperature above 0) can't be verified token by token.
    """
    prompt = ask(file, instruction, lines, Project() if no_project_files else project_of(file)).prompt
    config = EngineConfig(model=model, dtype=dtype)
    report = check(
        config,
        prompt.messages,
        source=prompt.prediction,
        file_type=prompt.file_type,
        max_tokens=prompt.max_tokens,
    )
    if as_json:
        click.echo(json.dumps(report))
    else:
        show(report)
    ctx.exit(0 if report["is_exact"] else 1)
