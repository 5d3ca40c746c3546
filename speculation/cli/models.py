"""`stet models`: what there is, fetch it, where it lies, remove it.

Asks before it downloads or deletes. Imports no torch: `list` and `path` answer at once.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from speculation.config import PRESETS, Preset, models_dir
from speculation.errors import ConfigError, EngineError
from speculation.models import store
from speculation.models.catalog import model_ids
from speculation.serving import process

if TYPE_CHECKING:
    from speculation.models.fetch import Plan

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended, as shells know it."""


@click.group()
def models() -> None:
    """List, fetch, find and remove model weights."""


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def list_models(as_json: bool) -> None:
    """Show the presets, and what is fetched."""
    presets = [_row(preset) for preset in PRESETS.values()]
    sizes = {folder: store.tree_size(folder) for folder in store.ready_folders(models_dir())}
    if as_json:
        fetched = [{"model": store.model_id_of(f), "path": str(f), "bytes": size} for f, size in sizes.items()]
        click.echo(json.dumps({"models_dir": str(models_dir()), "presets": presets, "fetched": fetched}, indent=2))
        return
    for row in presets:
        click.echo(f"{row['preset']:<8} {row['target']}" + (f" + {row['small_lm']}" if row["small_lm"] else ""))
        click.echo(f"{'':<8} for {row['purpose']}; {'fetched' if row['fetched'] else 'not fetched'}")
    click.echo(f"\nIn {models_dir()}:" if sizes else f"\nNothing in {models_dir()} yet.")
    for folder, size in sizes.items():
        click.echo(f"  {store.model_id_of(folder)}  {store.human_size(size)}")


def _row(preset: Preset) -> dict[str, object]:
    folders = [store.folder_of(model_id, models_dir()) for model_id in model_ids(preset.name)]
    return {
        "preset": preset.name,
        "target": preset.target,
        "small_lm": preset.small_lm,
        "purpose": preset.purpose,
        "fetched": all(store.is_ready(folder) for folder in folders),
    }


@models.command()
@click.argument("ref", metavar="PRESET_OR_ID")
@click.option("--yes", is_flag=True, help="Fetch without asking.")
@click.pass_context
def fetch(ctx: click.Context, ref: str, yes: bool) -> None:
    """Download, verify and convert the weights of a preset or a Hugging Face id.

    What an interrupted fetch has got is kept, and the next one goes on from there.
    """
    # Imported here: they bring the hub's client and rich, which `list` and `path` have no use for.
    from speculation.cli.bars import byte_bars
    from speculation.models import fetch as fetching

    plans = [plan for model_id in model_ids(ref) if (plan := fetching.make_plan(model_id, models_dir()))]
    if not plans:
        click.echo(f"{ref} is fetched already.", err=True)
        return
    _announce(plans)
    store.check_room(models_dir(), fetching.room(plans), ref)
    _ask("Fetch?", yes)
    try:
        for plan in plans:
            click.echo(plan.model_id, err=True)
            with byte_bars() as progress:
                fetching.fetch(plan.model_id, models_dir(), progress, plan)
    except KeyboardInterrupt:
        click.echo(f"stet: interrupted; `stet models fetch {ref}` goes on where this stopped", err=True)
        ctx.exit(INTERRUPTED)
    click.echo(f"{ref} is ready.", err=True)


def _announce(plans: Sequence["Plan"]) -> None:
    for plan in plans:
        size = f"{store.human_size(plan.n_download)} from {plan.origin}"
        after = f", {store.human_size(plan.n_kept)} once converted" if plan.gguf else ""
        click.echo(f"{plan.model_id}: {size} to {plan.folder}{after}", err=True)


@models.command()
@click.option("--context", type=click.IntRange(1), default=8192, show_default=True, help="Tokens of prompt and answer.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:N or mps.")
@click.option(
    "--dtype", default="auto", show_default=True, help="Of the target: auto, float32, bfloat16, float16, int8 or int4."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def fit(context: int, device: str, dtype: str, as_json: bool) -> None:
    """Estimate what each preset takes in memory here, fetched or not, and recommend one. Loads nothing."""
    # Imported here: torch and transformers take seconds.
    from speculation.models.fit import fit_presets

    estimates, recommended = fit_presets(
        models_dir(), device=device, dtype=dtype, n_context=context, n_held=held_by_engine(device)
    )
    if as_json:
        name = recommended.preset if recommended else None
        click.echo(json.dumps({"recommended": name, "presets": [asdict(e) for e in estimates]}, indent=2))
        return
    for e in estimates:
        mark = "*" if e == recommended else " "
        click.echo(f"{mark} {e.preset:<8} {e.why}")
        click.echo(
            f"{'':11}{e.model} in {e.dtype}: weights {store.human_size(e.weights_bytes)}, "
            f"KV cache {store.human_size(e.kv_bytes)}; "
            + ("fetched" if e.fetched else f"to download: {store.human_size(e.download_bytes)}")
        )
    choice = recommended.choice if recommended else "none; free some memory or use a server"
    click.echo(f"\nRecommended on {estimates[0].device}: {choice}")


def held_by_engine(device: str) -> int:
    """Memory of the device that comes free when the running engine leaves, as it does when another model is chosen."""
    # Imported here as above.
    from speculation.models.forms import choose_device
    from speculation.models.memory import process_bytes

    with suppress(EngineError):
        endpoint = process.find()
        if endpoint and choose_device(device).type != "cuda":
            return process_bytes(endpoint.pid)
        health = process.health(endpoint) if endpoint else None
        return health.gpu_bytes if health else 0
    return 0


@models.command()
@click.argument("ref")
def path(ref: str) -> None:
    """Print the folder of a fetched model: a preset's target, a Hugging Face id, or a path of yours."""
    click.echo(store.find(ref, models_dir()))


@models.command()
@click.argument("ref", metavar="PRESET_OR_ID")
@click.option("--yes", is_flag=True, help="Remove without asking.")
def remove(ref: str, yes: bool) -> None:
    """Delete what was fetched of a model. A preset's small LM stays: other presets share it."""
    model_id, *small_lm = model_ids(ref)
    places = [store.folder_of(model_id, models_dir()), store.staging_of(model_id, models_dir())]
    found = [place for place in places if place.exists() or place.is_symlink()]
    if not found:
        click.echo(f"Nothing of {model_id} is fetched.", err=True)
        return
    click.echo(f"{model_id}: {store.human_size(sum(map(store.tree_size, found)))} in {found[0]}", err=True)
    _ask("Remove?", yes)
    store.remove(model_id, models_dir())
    click.echo(f"Removed {model_id}.", err=True)
    if small_lm and store.is_ready(store.folder_of(small_lm[0], models_dir())):
        click.echo(f"Its small LM stays; to remove it too: stet models remove {small_lm[0]}", err=True)


def _ask(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to be asked; add --yes to go ahead without")
    click.confirm(question, abort=True, err=True)
