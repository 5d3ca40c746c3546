"""`stet rewrite`: the editor's rewrite on a file, by the same prompts, guards and diffs."""

import asyncio
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.status import Status

from lsp_server.compare import comparison
from lsp_server.documents import Snapshot, is_blank
from lsp_server.edits import Hunk, UnifiedDiff, apply_hunks
from lsp_server.engine_client import EngineClient, Request
from lsp_server.guards import AnswerWarning
from lsp_server.languages import language_of
from lsp_server.project import Project, read_project, repository_of
from lsp_server.prompts import AGAIN_TEMPERATURE, Prompt, build_prompt, task_text
from lsp_server.scopes import Region, lines_region
from lsp_server.settings import Settings
from lsp_server.writing import Writing
from speculation.errors import ConfigError, StetError


class LineRange(click.ParamType[tuple[int, int]]):
    """A:B, lines counted from 1, both ends included; A alone is one line."""

    name = "A:B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Read the range."""
        match = re.fullmatch(r"(\d+)(?::(\d+))?", value)
        if match is None:
            self.fail(f"{value!r} is no range of lines; write it like 10:20, or 10 for one line", param, ctx)
        return int(match[1]), int(match[2] or match[1])


def not_empty(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse an empty --model: it would name the current folder."""
    if not value.strip():
        raise click.BadParameter("name a preset, a Hugging Face id or a local path", ctx, param)
    return value


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse nan, which no range keeps out."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is not in the range 0<=x<=100.", ctx, param)
    return value


@dataclass(frozen=True)
class Options:
    """How to rewrite and what to print."""

    model: str
    draft: bool
    temperature: float
    seed: int | None
    write: bool
    json: bool
    is_shown: bool = True
    """Whether the diff is printed as it comes."""


def asks_for_rewrite(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command what every rewrite is asked by: FILE, INSTRUCTION, --lines, --model and --no-project-files."""
    for parameter in (
        click.option("--no-project-files", is_flag=True, help="Leave AGENTS.md and .stet.toml out of the prompt."),
        click.option(
            "--model",
            default="auto",
            show_default=True,
            callback=not_empty,
            help="Preset, Hugging Face id or local path.",
        ),
        click.option("--lines", type=LineRange(), help="Rewrite only these lines; the others are context."),
        click.argument("instruction"),
        click.argument("file", type=click.Path(path_type=Path)),
    ):
        command = parameter(command)
    return command


@click.command()
@asks_for_rewrite
@click.option("--write", is_flag=True, help="Put the new text into FILE.")
@click.option("--force", is_flag=True, help="With --write: also when there is a warning, as that code was lost.")
@click.option("--json", "as_json", is_flag=True, help="Print one object: diff, new_text, warnings, stats, context.")
@click.option("--no-draft", is_flag=True, help="Plain decoding, for comparison.")
@click.option("--compare", is_flag=True, help="Then do it again by plain decoding, and show both side by side.")
@click.option(
    "--again", is_flag=True, help="Another try after one that changed nothing: firmer words, some temperature."
)
@click.option(
    "--temperature",
    type=click.FloatRange(0, 100),
    callback=finite,
    help="0, the default, is greedy.",
)
@click.option("--seed", type=int, help="Makes a temperature above 0 repeatable.")
def rewrite(
    file: Path,
    instruction: str,
    lines: tuple[int, int] | None,
    model: str,
    no_project_files: bool,
    write: bool,
    force: bool,
    as_json: bool,
    no_draft: bool,
    compare: bool,
    again: bool,
    temperature: float | None,
    seed: int | None,
) -> None:
    """Rewrite FILE as INSTRUCTION says, and print the change as a unified diff."""
    if temperature is None:
        temperature = AGAIN_TEMPERATURE if again else 0.0
    if force and not write:
        raise click.UsageError("--force says how to --write; give both, or neither")
    if compare and no_draft:
        raise click.UsageError("--compare does it by plain decoding as well; leave --no-draft out")
    if seed is not None and not temperature:
        raise click.UsageError("--seed makes no difference without chance; add --temperature 0.7, or leave it out")
    options = Options(model, not no_draft, temperature, seed, write, as_json, is_shown=not as_json)
    asked = ask(file, instruction, lines, Project() if no_project_files else project_of(file), again=again)
    snapshot = asked.snapshot
    client = EngineClient(Settings(model=options.model))
    table = None
    printer = Printer(options)
    try:
        hunks, warnings, stats = asyncio.run(write_diff(client, asked, file, options, printer))
        if compare:
            click.echo(f"{figures(hunks, stats)}\nThe same by plain decoding, which takes a while:", err=True)
            plain = replace(options, draft=False, is_shown=False)
            written = asyncio.run(write_diff(client, asked, file, plain, Printer(plain)))
            table = comparison(stats, written.stats, written.hunks == hunks)
    except KeyboardInterrupt:
        click.echo("stet: stopped; nothing was changed", err=True)
        raise SystemExit(130) from None
    new_text = "".join(apply_hunks(snapshot.lines, hunks))
    is_held_back = write and bool(warnings) and not force
    if write and hunks and not is_held_back:
        replace_file(file, snapshot.text, new_text)
    if options.json:
        diff = UnifiedDiff(file.as_posix().lstrip("/"), snapshot.lines)
        pieces = [*diff.feed(hunks, 0), *diff.finish()]
        said = [warning._asdict() for warning in warnings]
        answer = {
            "diff": "".join(pieces),
            "new_text": new_text,
            "warnings": said,
            "stats": stats,
            "context": asked.context,
        }
        printer.print(json.dumps(answer) + "\n")
    printer.check()
    if client.trouble:
        click.echo(f"stet: {client.trouble}", err=True)
    if table is None:
        click.echo(figures(hunks, stats), err=True)
    else:
        Console(stderr=True).print(table)
    for warning in warnings:
        click.echo(f"warning: {warning.message}", err=True)
    if is_held_back:
        raise StetError(f"{file} was not written, because of the warning; to write it all the same, add --force")


class Asked(NamedTuple):
    """What a command line asks for."""

    snapshot: Snapshot
    region: Region
    prompt: Prompt
    context: list[dict[str, Any]]
    """What project files have put into the prompt."""


def ask(file: Path, instruction: str, lines: tuple[int, int] | None, project: Project, *, again: bool = False) -> Asked:
    """The prompt for a file; what of the project is in it is said on stderr. Raises ConfigError."""
    snapshot = read_file(file)
    region = find_lines(snapshot, lines, file)
    for line in (*project.problems, *(f"context: {used}" for used in project.used())):
        click.echo(f"stet: {line}", err=True)
    task = task_text(instruction, None, (), snapshot, again=again)
    prompt = build_prompt(snapshot, region, task, file.name, project.instructions)
    return Asked(snapshot, region, prompt, [used.json() for used in project.used()])


def project_of(file: Path) -> Project:
    """What the git repository that a file is in, or its folder, says about rewrites."""
    return read_project(file.absolute(), [repository_of(file.absolute())])


class Printer:
    """Prints byte for byte. With --write a stdout that fails must not keep the file from being written: said later."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._error: OSError | None = None

    def show(self, pieces: Iterator[str]) -> None:
        """Print pieces of a diff, unless none is wanted."""
        for piece in pieces:
            if self._options.is_shown:
                self.print(piece)

    def print(self, text: str) -> None:
        """Print text; nothing once printing has failed."""
        if self._error is not None:
            return
        try:
            click.echo(text.encode("utf-8", "surrogateescape"), nl=False)
        except OSError as error:
            self._error = error
            if not self._options.write:
                self.check()

    def check(self) -> None:
        """Raise what went wrong: a reader that left (head) ends us quietly, as it does every command."""
        if isinstance(self._error, BrokenPipeError):
            raise self._error
        if self._error is not None:
            raise StetError(f"can't write the output: {self._error.strerror}") from self._error


def read_file(file: Path) -> Snapshot:
    """A file's text. Raises ConfigError for what isn't text."""
    try:
        data = file.read_bytes()
        text = data.decode("utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no file {file}") from None
    except IsADirectoryError:
        raise ConfigError(f"{file} is a directory; name a file in it") from None
    except OSError as error:
        raise ConfigError(f"can't read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8 text; only text files can be rewritten") from None
    if b"\0" in data:
        raise ConfigError(f"{file} is a binary file; only text files can be rewritten")
    if is_blank(text):
        raise ConfigError(f"{file} is empty; there is nothing to rewrite")
    return Snapshot(file.absolute().as_uri(), 0, text, language_of(file))


def find_lines(snapshot: Snapshot, lines: tuple[int, int] | None, file: Path) -> Region:
    """The region of --lines; without it, the whole file."""
    count = len(snapshot.lines)
    first, last = lines or (1, count)
    if first > last:
        raise ConfigError(f"--lines {first}:{last} ends before it begins; write the smaller number first")
    if not 1 <= first <= last <= count:
        raise ConfigError(f"--lines {first}:{last} is out of range: {file} has the lines 1:{count}")
    region = lines_region(snapshot, first - 1, last)
    if is_blank(snapshot.text[region.start : region.end]):
        raise ConfigError(f"lines {first}:{last} of {file} are blank; there is nothing to rewrite")
    return region


class Written(NamedTuple):
    """What became of a rewrite: hunks on the file's lines, and figures."""

    hunks: list[Hunk]
    warnings: list[AnswerWarning]
    stats: dict[str, Any]


async def write_diff(client: EngineClient, asked: Asked, file: Path, options: Options, printer: Printer) -> Written:
    """Have the model write, print the diff as it comes."""
    snapshot, region, prompt = asked.snapshot, asked.region, asked.prompt
    request = Request(
        prompt.messages,
        prompt.prediction,
        prompt.file_type,
        prompt.max_tokens,
        temperature=options.temperature,
        seed=options.seed,
        draft=options.draft,
    )
    writing = Writing(prompt)
    diff = UnifiedDiff(file.as_posix().lstrip("/"), snapshot.lines)
    hunks: list[Hunk] = []
    with status() as show:
        async with aclosing(client.complete(request)) as events:
            async for event in events:
                writing.take(event)
                show(writing.meter.message())
                fresh = [
                    hunk._replace(first=hunk.first + region.first, last=hunk.last + region.first)
                    for hunk in writing.hunks[len(hunks) :]
                ]
                hunks += fresh
                printer.show(diff.feed(fresh, writing.line + region.first))
    printer.show(diff.finish())
    writing.check_syntax()
    return Written(hunks, writing.warnings, writing.meter.final())


@contextmanager
def status() -> Iterator[Any]:
    """A line on the terminal that says how far it is; silent where stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda message: None
        return
    with Status("starting", console=console) as line:
        yield line.update


def figures(hunks: list[Hunk], stats: dict[str, Any]) -> str:
    """What the rewrite cost, in a line."""
    parts = [f"{len(hunks)} hunk{'s' * (len(hunks) != 1)}" if hunks else "nothing to change (--again tries once more)"]
    parts.append(f"{stats['tokens']} tokens")
    if stats["copiedShare"] is not None:
        parts.append(f"{stats['copiedShare']:.0%} copied")
    if stats["passes"]:
        parts.append(f"{stats['passes']} passes")
    if stats["tokensPerSecond"]:
        parts.append(f"{stats['tokensPerSecond']:.1f} tokens/s")
    return ", ".join([*parts, f"{stats['totalSeconds']:.1f} s"])


def replace_file(file: Path, old_text: str, new_text: str) -> None:
    """Put new text into a file, whole or not at all; mode, line ends and BOM stay. Raises StetError."""
    target = file.resolve()
    try:
        if target.read_bytes() != old_text.encode():
            raise StetError(f"{file} was changed by somebody else meanwhile; nothing was written: run it again")
        if not target.stat().st_mode & 0o222 or not os.access(target, os.W_OK):
            raise StetError(f"{file} is read-only; nothing was written: make it writable (chmod u+w) and run it again")
        if target.stat().st_nlink > 1:  # replacing it would part it from its other names
            target.write_bytes(new_text.encode())
            return
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(new_text.encode())
            shutil.copymode(target, name)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise StetError(f"can't write {file}: {error.strerror}; nothing was written") from None
