"""`stet bench`: figures that anyone can measure again. Knows options and tables; speculation.bench measures."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from speculation.acceptance import Store
from speculation.bench import tasks as edit_tasks
from speculation.bench.priors import PriorCounts
from speculation.bench.replay import COSTS, Learned, Tally, by_file_type, load_cost, replay
from speculation.bench.theory import compare, replay_passes
from speculation.config import EngineConfig, models_dir
from speculation.errors import ConfigError

if TYPE_CHECKING:
    from speculation.models.tokenizer import Tokenizer

FILES = click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
MAX_TOKENS = click.option(
    "--max-tokens",
    type=click.IntRange(1),
    default=2500,
    show_default=True,
    help="Leave out tasks with a longer before or after.",
)
TOKENIZER = click.option(
    "--tokenizer", "ref", default="tiny", show_default=True, help="Preset, id or folder with the tokenizer."
)
SQLITE_HEAD = b"SQLite format 3\0"
AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")


@click.group()
def bench() -> None:
    """Measure drafts and speed on edit tasks (JSON lines with before, after, instruction)."""


@bench.command("replay")
@FILES
@click.option("--cost", default="cpu", show_default=True, help="cpu, flat, or a JSON file of seconds by positions.")
@click.option("--drafter", default="stet", show_default=True, help="none, prompt-lookup:N:K or stet.")
@click.option(
    "--store",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A database to learn from and into; without one, each replay starts knowing nothing.",
)
@MAX_TOKENS
@TOKENIZER
@AS_JSON
def replay_command(
    files: tuple[Path, ...], cost: str, drafter: str, path: Path | None, max_tokens: int, ref: str, as_json: bool
) -> None:
    """Pretend that the target writes the edit, count its passes, weigh them with T(q). Takes seconds, no weights."""
    _check_store(path)
    store = Store(path)
    try:
        tally = _replayed(files, ref, cost=cost, drafter=drafter, max_tokens=max_tokens, learned=store)
    finally:
        store.close()
    report = {"drafter": drafter, "cost": cost, **tally.report()}
    if as_json:
        click.echo(json.dumps(report))
    else:
        Console().print(_replay_table(report))


def _check_store(path: Path | None) -> None:
    """Raise ConfigError for a file that is no database: a Store would set it aside as a damaged one."""
    if path is None or not path.exists():
        return
    with path.open("rb") as file:
        head = file.read(len(SQLITE_HEAD))
    if head not in (b"", SQLITE_HEAD):
        raise ConfigError(f"--store {path} is no SQLite database; name another file, or one that isn't there yet")


def _replayed(
    files: tuple[Path, ...], tokenizer: str, *, cost: str, drafter: str, max_tokens: int, learned: Learned
) -> Tally:
    """A replay with its progress on stderr."""
    tasks = edit_tasks.load(files)
    curve = load_cost(cost)
    encoder = _tokenizer(tokenizer)
    with Console(stderr=True).status("replaying…") as status:
        tally = replay(
            tasks,
            encoder,
            cost=curve,
            learned=learned,
            drafter=drafter,
            max_tokens=max_tokens,
            on_task=lambda t: status.update(f"replaying task {t.tasks} of {len(tasks)}…"),
        )
    if not tally.tasks:
        raise ConfigError(f"there is no task of at most {max_tokens} tokens in {', '.join(map(str, files))}")
    return tally


def _tokenizer(ref: str) -> "Tokenizer":
    # Imported here: a wrong argument is said at once, and transformers takes two seconds.
    from speculation.models.loading import resolve
    from speculation.models.tokenizer import Tokenizer

    return Tokenizer(resolve(ref, models_dir()))


def _replay_table(report: dict[str, Any]) -> Table:
    columns = (
        "tasks",
        "tokens",
        "passes",
        "tokens_per_pass",
        "speedup",
        "slowest_tenth",
        "slowest",
        "drafted_per_token",
    )
    table = Table(
        "file type", *(column.replace("_", " ") for column in columns), title=f"{report['drafter']}, {report['cost']}"
    )
    for name, row in [*by_file_type(report), ("all", report)]:
        table.add_row(name, *(str(row[column]) for column in columns))
    return table


@bench.command("theory")
@FILES
@click.option("--cost", default="cpu", show_default=True, help="cpu, flat, or a JSON file of seconds by positions.")
@MAX_TOKENS
@TOKENIZER
@AS_JSON
def theory_command(files: tuple[Path, ...], cost: str, max_tokens: int, ref: str, as_json: bool) -> None:
    """Tokens per pass and speed-up as Leviathan's formulas and our survival form predict them, beside a replay's."""
    tasks = edit_tasks.load(files)
    curve = load_cost(cost)
    tokenizer = _tokenizer(ref)
    with Console(stderr=True).status("replaying…") as status:
        passes = replay_passes(
            tasks, tokenizer, curve, max_tokens, lambda n: status.update(f"replaying task {n} of {len(tasks)}…")
        )
    if not passes:
        raise ConfigError(f"there is no task of at most {max_tokens} tokens in {', '.join(map(str, files))}")
    report = {"cost": cost, **compare(passes, curve.seconds(1))}
    if as_json:
        click.echo(json.dumps(report))
    else:
        Console().print(*_theory_tables(report))


def _theory_tables(report: dict[str, Any]) -> tuple[Table, Table]:
    style: dict[str, Any] = {"box": SIMPLE_HEAD, "padding": 0, "pad_edge": False}
    rows = Table(
        *("file type", "draft", "passes", "gamma", "alpha", "c"),
        *("tokens", "iid", "E", "speed", "iid", "E/T"),
        title=f"Tokens a pass and speed-up, {report['cost']}: measured, by Leviathan's form, by ours",
        **style,
    )
    for row in report["rows"]:
        names = (row["file_type"], row["source"], str(row["passes"]))
        head = (f"{row['gamma']:.1f}", f"{row['alpha']:.3f}", f"{row['c']:.4f}")
        forms = [f"{what}{form}" for what in ("tokens_per_pass", "speedup") for form in ("", "_iid", "_survival")]
        rows.add_row(*names, *head, *(f"{row[form]:.2f}" for form in forms))
    columns = ("expected from", "passes", "measured", "iid", "E")
    calibration = Table(*columns, title="Tokens of passes with a draft", **style)
    for row in report["calibration"]:
        calibration.add_row(*(str(row[column]) for column in ("from", "passes", "measured", "iid", "survival")))
    return rows, calibration


@bench.command("priors")
@FILES
@MAX_TOKENS
@TOKENIZER
def priors_command(files: tuple[Path, ...], max_tokens: int, ref: str) -> None:
    """Count the shipped priors anew by replay of these edits; prints the entries of PRIORS in speculation/priors.py."""
    counts = PriorCounts()
    for cost in COSTS:
        _replayed(files, ref, cost=cost, drafter="stet", max_tokens=max_tokens, learned=counts)
    for source, alphas in counts.priors().items():
        click.echo(f'    "{source}": {alphas},')


@bench.command("run")
@FILES
@click.option("--model", default="auto", show_default=True, help="Preset, Hugging Face id, folder or GGUF file.")
@click.option("--small-lm", default="auto", show_default=True, help="The preset's own, none, or like --model.")
@click.option(
    "--dtype", default="auto", show_default=True, help="Of the target: float32, bfloat16, float16, int8 or int4."
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Tasks, spread evenly over all that are short enough.",
)
@MAX_TOKENS
@click.option("--skip", multiple=True, help="Leave a method out, by its name in the table; can be given several times.")
@click.option("--cost", help="Draft as on another machine: cpu, flat, or a JSON file. Passes count then, not seconds.")
@click.option(
    "--c", type=click.FloatRange(0, 1), default=0.07, show_default=True, help="With --cost: small pass / target pass."
)
@AS_JSON
def run_command(
    files: tuple[Path, ...],
    model: str,
    small_lm: str,
    dtype: str,
    limit: int,
    max_tokens: int,
    skip: tuple[str, ...],
    cost: str | None,
    c: float,
    as_json: bool,
) -> None:
    """Real models: transformers' greedy, prompt lookup and assisted decoding beside Stet, on the same weights."""
    tasks = edit_tasks.load(files)
    curve = load_cost(cost) if cost else None
    # Imported here: a wrong argument is said at once, and torch takes seconds.
    from speculation.bench.run import Record, check_skip, run
    from speculation.engine import Engine

    check_skip(skip)
    console = Console(stderr=True)

    def show(i: int, n: int, records: Mapping[str, Record]) -> None:
        speeds = ", ".join(f"{name} {len(r.token_ids) / r.decode_s:.1f}" for name, r in records.items())
        console.print(f"task {i} of {n}: {len(records['greedy'].token_ids)} tokens; tokens/s: {speeds}")

    with console.status("loading the models…"):
        config = EngineConfig(model=model, small_lm=small_lm, dtype=dtype)
        engine = Engine.open(replace(config, database=None) if curve else config)
    try:
        if curve:
            engine.pretend(curve, c)
        report = run(engine, tasks, limit=limit, max_tokens=max_tokens, skip=skip, on_task=show)
        if curve:
            report |= {"cost": cost, "c": c}
            for figures in report["methods"].values():
                figures["cost_units"] = round(figures["passes"] + c * figures["small_lm_passes"], 2)
    finally:
        engine.close()
    if as_json:
        click.echo(json.dumps(report))
    else:
        Console().print(_run_table(report), _file_type_table(report))


@bench.command("gpu")
@FILES
@click.option("--model", required=True, help="As of stet bench run; or random weights: random:7B, random:FOLDER.")
@click.option("--small-lm", default="none", show_default=True, help="none, or like --model.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@click.option(
    "--dtype", default="auto", show_default=True, help="Of the target: float32, bfloat16, float16, int8 or int4."
)
@click.option("--limit", type=click.IntRange(1), default=6, show_default=True, help="Tasks, spread evenly.")
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    default=400,
    show_default=True,
    help="Leave out tasks with a longer before or after.",
)
@TOKENIZER
@AS_JSON
def gpu_command(
    files: tuple[Path, ...],
    model: str,
    small_lm: str,
    device: str,
    dtype: str,
    limit: int,
    max_tokens: int,
    ref: str,
    as_json: bool,
) -> None:
    """What this device can do: memory, T(q), plain decoding against the roof, and recorded edits by real passes.

    A recording decides what is written, so a model with random weights shows the times of a real one.
    """
    tasks = edit_tasks.load(files)
    # Imported here: a wrong argument is said at once, and torch takes seconds.
    from speculation.bench.gpu import Bench
    from speculation.models.driven import load_for_times

    tokenizer = _tokenizer(ref)
    with Console(stderr=True).status("loading the models…") as status:
        target = load_for_times(model, models_dir(), device, dtype)
        small = None if small_lm == "none" else load_for_times(small_lm, models_dir(), device, "auto")
        kit = Bench(target, small, tokenizer)
        report = kit.run(tasks, limit=limit, max_tokens=max_tokens, on_step=lambda what: status.update(f"{what}…"))
    report = {"model": model, "small_lm": None if small is None else small_lm, **report}
    if as_json:
        click.echo(json.dumps(report))
    else:
        Console().print(*_gpu_tables(report))


def _gpu_tables(report: dict[str, Any]) -> tuple[Table, Table, Table]:
    style: dict[str, Any] = {"box": SIMPLE_HEAD, "padding": 0, "pad_edge": False}
    passes = Table("ms a pass of", *report["pass_ms"], **style)
    for q in report["pass_ms"]["fixed shapes"]:
        passes.add_row(str(q), *(str(curve.get(q, "")) for curve in report["pass_ms"].values()))
    methods = Table(**style)
    for column in ("", *next(iter(report["methods"].values()))):
        methods.add_column(column.replace("_", " "), no_wrap=not column)
    for name, figures in report["methods"].items():
        methods.add_row(name, *map(str, figures.values()))
    summary = Table(
        "", "", title=f"{report['model']} {report['dtype']} on {report['device']}", show_header=False, **style
    )
    for name in ("bandwidth_gb_s", "gb_read_a_pass", "roof_tokens_per_s", "plain_to_roof", "t64_to_t1", "peak_bytes"):
        if report[name] is not None:
            summary.add_row(name.replace("_", " "), str(report[name]))
    for name, ratio in report["fixed_to_growing"].items():
        summary.add_row(f"{name}: fixed shapes to growing caches", str(ratio))
    return passes, methods, summary


def _run_table(report: dict[str, Any]) -> Table:
    columns = list(dict.fromkeys(column for figures in report["methods"].values() for column in figures))
    table = Table(
        "",
        *report["methods"],
        title=f"{report['model']} {report['dtype']} on {report['device']}, {report['tasks']} tasks",
    )
    for column in columns:
        cells = (str(figures.get(column, "")) for figures in report["methods"].values())
        table.add_row(column.replace("_", " "), *cells)
    return table


def _file_type_table(report: dict[str, Any]) -> Table:
    table = Table("file type", *report["methods"], title="decoding tokens/s by file type")
    for language, speeds in report["by_file_type"].items():
        table.add_row(language, *(str(speed) for speed in speeds.values()))
    return table
