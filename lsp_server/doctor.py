"""`stet doctor`: is everything there that a rewrite needs? For editors without a plugin, and for reports of trouble."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from io import BytesIO
from typing import Any

import click

from lsp_server.wire import read_message
from speculation.cli.doctor import Finding, findings

TIMEOUT_S = 60.0


@click.command()
@click.option("--model", default="auto", show_default=True, help="Preset, Hugging Face id or local path.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.pass_context
def doctor(ctx: click.Context, model: str, as_json: bool) -> None:
    """Look at all that a rewrite needs, and say what to do where something is amiss (exit status 1).

    Versions, memory, models and their digests, engine, database, and a language server that is asked for an answer.
    Starts no engine, loads no model, and says nothing of your files.
    """
    found = []
    for finding in all_findings(model):
        found.append(finding)
        if not as_json:
            click.echo(f"{'amiss' if finding.remedy else 'ok':<6}{finding.what:<16} {finding.said}")
            if finding.remedy:
                click.echo(f"{'':<22} -> {finding.remedy}")
    if as_json:
        click.echo(json.dumps({"findings": [asdict(finding) for finding in found]}))
    ctx.exit(1 if any(finding.remedy for finding in found) else 0)


def all_findings(model: str) -> Iterator[Finding]:
    """One after another, as each takes a while."""
    yield from findings(model)
    yield language_server()


def language_server() -> Finding:
    """Start one, as an editor does, ask it what it can do, and let it go."""
    started = time.perf_counter()
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"method": "initialized", "params": {}},
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    ]
    program = [sys.executable, "-m", "lsp_server"]
    try:
        done = subprocess.run(program, input=framed(messages), capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return Finding("language server", f"no answer within {TIMEOUT_S:.0f} s", "stet lsp --log-level debug shows why")
    stream = BytesIO(done.stdout)
    while body := read_message(stream):
        message = json.loads(body)
        if message.get("id") == 1 and "result" in message:
            said = message["result"]["serverInfo"]
            seconds = time.perf_counter() - started
            return Finding(
                "language server", f"{said['name']} {said['version']} came, answered and went in {seconds:.1f} s"
            )
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return Finding("language server", f"it ended without an answer: {''.join(last)}", "install stet-lsp anew")


def framed(messages: list[dict[str, Any]]) -> bytes:
    """Messages as they go over the wire."""
    bodies = (json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages)
    return b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)
