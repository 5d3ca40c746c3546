"""`stet stats`: what was learned so far, as tables, JSON or a plot. Knows the database, no model; loads no torch."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table

from speculation.acceptance import Run, Store, damage, public_name
from speculation.config import PRESETS, state_dir
from speculation.errors import ConfigError
from speculation.priors import BUCKET_EDGES
from speculation.survival import ALL_FILE_TYPES, Cell, Counts

NOTHING_YET = 'Nothing is learned yet. Rewrite something first: stet rewrite FILE "INSTRUCTION"'
LENGTHS = (0, 1, 2, 4, 8, 32)
"""Match lengths at which a column of the table begins; all are edges of buckets."""


@click.command()
@click.option("--model", help="Only this target: preset, Hugging Face id or local path.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw survival, gamma and T(q) into a .png or .svg.")
def stats(model: str | None, as_json: bool, plot: Path | None) -> None:
    """Show what was learned: acceptance by file type and draft source, draft lengths, speed-up."""
    report = load(state_dir() / "stet.db", model)
    if plot is not None:
        if not report["targets"]:
            raise ConfigError(f"there is nothing to draw. {NOTHING_YET}")
        from speculation.cli.plot import draw  # matplotlib takes a second, and need not be installed

        draw(report, plot)
        click.echo(f"drawn to {plot}", err=True)
    if as_json:
        click.echo(json.dumps(report))
    elif plot is None:
        for target, figures in report["targets"].items():
            Console().print(Group(_run_table(target, figures), _source_table(figures)))
        if not report["targets"]:
            click.echo(NOTHING_YET)


def load(database: Path, model: str | None = None) -> dict[str, Any]:
    """The report: "targets" by name, "pass_times" by machine. A database that isn't there, or is damaged, stays so.

    Raises ConfigError for a database that can't be read and for a model of which nothing is known.
    """
    if not database.exists():
        return {"targets": {}, "pass_times": {}}
    if reason := damage(database):
        raise ConfigError(
            f"the database {database} is damaged ({reason}). Rewrites work; the engine sets it aside, and learns anew."
        )
    with closing(Store(database)) as store:
        cells, runs = store.cells(), store.runs()
        pass_times = {machine: store.pass_times(machine) for machine in store.machines()}
        if store.trouble:
            raise ConfigError(store.trouble)
    names = sorted({target for target, _ in cells} | {run.target for run in runs})
    if model is not None:
        wanted = public_name(PRESETS[model].target if model in PRESETS else model)
        known, names = names, [name for name in names if name.removesuffix(" sampled") == wanted]
        if not names:
            raise ConfigError(f"nothing is known of {wanted}; there are figures of {', '.join(known) or 'no model'}")
    targets = {
        name: _target_report(
            {cell: counts for (target, cell), counts in cells.items() if target == name},
            [run for run in runs if run.target == name],
        )
        for name in names
    }
    return {"targets": targets, "pass_times": pass_times}


def _target_report(cells: Mapping[Cell, Counts], runs: list[Run]) -> dict[str, Any]:
    """Figures by file type; under "" those of all file types together."""
    file_types = sorted({ALL_FILE_TYPES} | {file_type for _, file_type, _ in cells} | {run.file_type for run in runs})
    return {
        file_type: {
            **_run_report([run for run in runs if file_type in (ALL_FILE_TYPES, run.file_type)]),
            "sources": _source_report(cells, file_type),
        }
        for file_type in file_types
    }


def _run_report(runs: list[Run]) -> dict[str, Any]:
    n_passes = sum(run.n_passes for run in runs)
    n_tokens = sum(run.n_tokens for run in runs)
    n_drafted = sum(source.n_drafted for run in runs for source in run.sources.values())
    decode_s = sum(run.decode_s for run in runs)
    return {
        "requests": len(runs),
        "tokens": n_tokens,
        "tokens_per_pass": _ratio(n_tokens, n_passes),
        "gamma": _ratio(n_drafted, n_passes),
        "speedup": _ratio(sum(run.plain_s for run in runs), decode_s),
    }


def _source_report(cells: Mapping[Cell, Counts], file_type: str) -> dict[str, Any]:
    """Acceptance by draft source; counts are those that are remembered: older ones have faded."""
    sources: dict[str, Any] = {}
    for source in sorted({cell[0] for cell in cells if cell[1] == file_type}):
        counts = {BUCKET_EDGES[cell[2]]: cells[cell] for cell in sorted(cells) if cell[:2] == (source, file_type)}
        tested, accepted = (sum(figures) for figures in zip(*counts.values(), strict=True))
        sources[source] = {
            "tested": round(tested, 1),
            "accepted": round(accepted, 1),
            "alpha": _ratio(accepted, tested),
            "by_match_length": [
                {"from": edge, "tested": round(n, 1), "accepted": round(a, 1), "alpha": _ratio(a, n)}
                for edge, (n, a) in counts.items()
            ],
        }
    return sources


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


def _run_table(target: str, figures: Mapping[str, Any]) -> Table:
    columns = ("requests", "tokens", "tokens_per_pass", "gamma", "speedup")
    names = (column.replace("_", " ") for column in columns)
    table = Table("file type", *names, title=target, box=SIMPLE_HEAD, padding=0, pad_edge=False)
    for file_type, row in _all_first(figures):
        table.add_row(file_type, *(_figure(row[column]) for column in columns))
    return table


def _source_table(figures: Mapping[str, Any]) -> Table:
    ends = [*(f"-{end - 1}" for end in LENGTHS[1:]), "+"]
    columns = [f"{start}{end}".removesuffix(f"-{start}") for start, end in zip(LENGTHS, ends, strict=True)]
    caption = "% accepted of those tested: all, and by how many tokens matched before"
    names = ("file type", "draft", "tested", "accepted", "alpha", *columns)
    table = Table(*names, caption=caption, box=SIMPLE_HEAD, padding=0, pad_edge=False)
    for file_type, row in _all_first(figures):
        for source, counts in row["sources"].items():
            alphas = []
            for start, end in zip(LENGTHS, (*LENGTHS[1:], float("inf")), strict=True):
                there = [bucket for bucket in counts["by_match_length"] if start <= bucket["from"] < end]
                tested = sum(bucket["tested"] for bucket in there)
                alphas.append(_percent(_ratio(sum(bucket["accepted"] for bucket in there), tested)))
            totals = (f"{counts['tested']:.0f}", f"{counts['accepted']:.0f}", _percent(counts["alpha"]))
            table.add_row(file_type, source, *totals, *alphas)
    return table


def _all_first(figures: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(file_type or "all", row) for file_type, row in sorted(figures.items())]


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"
