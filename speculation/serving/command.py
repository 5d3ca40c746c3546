"""`stet engine serve`, the command that becomes the engine process.

Knows the options; torch and the web server are imported once it runs, so that the help stays fast.
"""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, get_args

import click

from speculation import logs
from speculation.config import IDLE_EXIT_S, EngineConfig, Passes
from speculation.errors import StetError
from speculation.serving.process import absolute
from speculation.serving.worker import EngineLike

DEFAULTS = EngineConfig()


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What to load and how: shared by serve and start."""
    for option in (
        click.option(
            "--gamma-max",
            type=click.IntRange(0, 4096),
            default=DEFAULTS.gamma_max,
            show_default=True,
            help="Drafted tokens of a pass at most; 0 is plain decoding.",
        ),
        click.option(
            "--kv-budget", type=click.IntRange(0), default=DEFAULTS.kv_budget_bytes, help="Bytes of KV cache."
        ),
        click.option("--database", default=str(DEFAULTS.database), help='Where alpha and T(q) are kept, or "none".'),
        click.option(
            "--models-dir",
            type=click.Path(path_type=Path),
            default=DEFAULTS.models_dir,
            help="Where fetched weights are.",
        ),
        click.option(
            "--dtype",
            type=click.Choice(["auto", "float32", "bfloat16", "float16", "int8", "int4"]),
            default=DEFAULTS.dtype,
            help="Of the target; int8 and int4: less memory, other words now and then. A small LM on a CPU is int8.",
        ),
        click.option(
            "--passes",
            type=click.Choice(get_args(Passes)),
            default=DEFAULTS.passes,
            help="static: of a few fixed lengths, captured on a GPU. same: all of one, exact to the last bit.",
        ),
        click.option("--device", default=DEFAULTS.device, help='"auto", "cpu", "cuda", "mps", ...'),
        click.option("--small-device", default=DEFAULTS.small_device, help='Of the small LM; "auto": as --device.'),
        click.option("--small-lm", default=DEFAULTS.small_lm, help='A model, "auto" (the preset\'s) or "none".'),
        click.option("--model", default=DEFAULTS.model, help="A preset, a Hugging Face id, a folder or a GGUF file."),
        click.option(
            "--idle-exit",
            type=click.FloatRange(0),
            default=IDLE_EXIT_S / 60,
            show_default=True,
            help="Leave after so many idle minutes; 0 never.",
        ),
        click.option(
            "--tcp",
            type=click.IntRange(0, 65535),
            help="Listen on 127.0.0.1 as well, behind a token; 0 picks a port.",
        ),
    ):
        command = option(command)
    return command


def config_of(options: dict[str, Any]) -> EngineConfig:
    """The EngineConfig that the options describe."""
    return EngineConfig(
        model=absolute(options["model"]),
        small_lm=absolute(options["small_lm"]),
        device=options["device"],
        small_device=options["small_device"],
        dtype=options["dtype"],
        models_dir=options["models_dir"],
        database=None if options["database"] == "none" else Path(options["database"]),
        passes=options["passes"],
        kv_budget_bytes=options["kv_budget"],
        gamma_max=options["gamma_max"],
    )


@click.command()
@model_options
def serve(**options: Any) -> None:
    """Be the engine process, in the foreground, until stopped."""
    become_engine(open_engine, options)


def open_engine(config: EngineConfig) -> EngineLike:
    """The real engine."""
    # Imported here, in the worker's thread: torch takes seconds, and /health answers meanwhile.
    from speculation.engine import Engine

    return Engine.open(config)


def become_engine(open_engine: Callable[[EngineConfig], EngineLike], options: dict[str, Any]) -> NoReturn:
    """Serve and end the process."""
    from speculation.serving.server import serve as serve_engine

    # Whatever a library prints belongs into the log.
    os.dup2(2, 1)
    logs.begin(logging.WARNING)
    logging.getLogger("speculation").setLevel(logging.INFO)
    config = config_of(options)
    code = 0
    try:
        serve_engine(
            lambda: open_engine(config),
            model=config.model,
            idle_exit_s=options["idle_exit"] * 60,
            tcp_port=options["tcp"],
        )
    except StetError as error:
        click.echo(f"stet: error: {error}", err=True)
        code = 1
    sys.stderr.flush()
    # The worker may be in the middle of a pass. Tearing the interpreter down under torch's threads can crash; all that
    # must be tidied is tidied.
    os._exit(code)
