"""`stet engine serve | start | status | stop`: the engine process from a terminal.

Knows options and words; process does the work.
"""

import json
from dataclasses import asdict
from typing import Any

import click

from speculation.serving import process, runtime
from speculation.serving.command import config_of, model_options, serve
from speculation.serving.process import Health
from speculation.serving.runtime import Endpoint

NOT_RUNNING = 3
"""Exit code of `status`, as with systemctl."""


@click.group()
def engine() -> None:
    """The process that holds the model, shared by all editor windows."""


engine.add_command(serve)


@engine.command()
@model_options
@click.option("--no-wait", is_flag=True, help="Return as soon as the process answers, before the weights are loaded.")
@click.option("--json", "is_json", is_flag=True, help="One JSON object on stdout.")
def start(no_wait: bool, is_json: bool, **options: Any) -> None:
    """Start the engine in the background, or find the one that runs."""
    config = config_of(options)
    endpoint = process.start(config, idle_exit_s=options["idle_exit"] * 60, tcp_port=options["tcp"])
    said = process.health(endpoint) if no_wait else process.wait_until_loaded(endpoint)
    if said and said.dtype and config.dtype != "auto" and not said.dtype.startswith(config.dtype):
        click.echo(
            f"stet: the engine that runs has dtype {said.dtype}; for {config.dtype} stop it first: stet engine stop",
            err=True,
        )
    _show(endpoint, said, is_json)


@engine.command()
@click.option("--json", "is_json", is_flag=True, help="One JSON object on stdout.")
def status(is_json: bool) -> None:
    """Say what runs. Exit code 3 when nothing does."""
    endpoint = process.find()
    _show(endpoint, process.health(endpoint) if endpoint else None, is_json)


@engine.command()
@click.option("--json", "is_json", is_flag=True, help="One JSON object on stdout.")
def stop(is_json: bool) -> None:
    """Stop the engine; running requests fail. Nothing to stop is fine."""
    was_running = process.stop()
    if is_json:
        click.echo(json.dumps({"stopped": was_running}))
    else:
        click.echo("engine stopped" if was_running else "no engine is running")


def _show(endpoint: Endpoint | None, said: Health | None, is_json: bool) -> None:
    if endpoint is None or said is None:
        click.echo(json.dumps({"status": "not running"}) if is_json else "no engine is running")
        click.get_current_context().exit(NOT_RUNNING)
    facts = {
        **asdict(said),
        "socket": endpoint.socket,
        "tcp": f"http://{endpoint.host}:{endpoint.port}/v1" if endpoint.port else None,
        "token_path": str(runtime.token_path(runtime.runtime_dir())) if endpoint.port else None,
        "log": str(runtime.log_path()),
    }
    if is_json:
        click.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        if value not in (None, "") and name != "names":
            click.echo(f"{name:<12} {value}")
