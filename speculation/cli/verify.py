"""What `stet verify` does once it knows what to ask: answer speculatively, score again by plain passes, report.

Knows Engine and words; the command and its prompt are lsp_server's.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from speculation.config import EngineConfig


def verify(
    config: EngineConfig, messages: Sequence[Mapping[str, str]], *, source: str, file_type: str, max_tokens: int
) -> dict[str, Any]:
    """Answer greedily with drafts, then check each token. The report: figures and flips. Raises StetError."""
    # Imported here: a wrong argument is said at once, and torch takes seconds.
    from speculation.engine import Engine
    from speculation.models.rescore import rescore
    from speculation.types import Stats

    console = Console(stderr=True)
    with console.status("loading the model…"):
        engine = Engine.open(config)
    with closing(engine), Progress(console=console) as bars:
        bar = bars.add_task("writing", total=None)
        answer: list[int] = []
        stats = Stats()
        for chunk in engine.generate(messages, source=source, file_type=file_type, max_new_tokens=max_tokens):
            answer += chunk.token_ids
            stats = chunk.stats or stats
        bars.update(bar, description="checking, one pass a token", total=len(answer))
        flips = rescore(engine.target, engine.encode(messages), answer, lambda n: bars.update(bar, completed=n))
        return {
            "model": engine.info.model,
            "device": engine.info.device,
            "dtype": engine.info.dtype,
            "tokens": len(answer),
            "passes": stats.n_passes,
            "is_exact": all(flip.is_near_tie for flip in flips),
            "flips": [
                {
                    "position": flip.position,
                    "token": engine.decode([flip.token]),
                    "first_choice": engine.decode([flip.choice]),
                    "margin": round(flip.margin, 6),
                    "steps": round(flip.margin / flip.step, 1),
                    "is_near_tie": flip.is_near_tie,
                }
                for flip in flips
            ],
        }


def show(report: Mapping[str, Any]) -> None:
    """The report for a person."""
    flips = report["flips"]
    if flips:
        table = Table("token", "written", "first choice", "margin in logits", "steps of the dtype", "near-tie")
        for flip in flips:
            texts = (repr(flip["token"]), repr(flip["first_choice"]))
            cells = (f"{flip['margin']:.4g}", f"{flip['steps']:g}", "yes" if flip["is_near_tie"] else "NO")
            table.add_row(str(flip["position"]), *texts, *cells)
        Console().print(table)
    n_ties = sum(flip["is_near_tie"] for flip in flips)
    Console().print(
        f"{report['model']} in {report['dtype']}: {report['tokens']} tokens in {report['passes']} passes; by plain "
        f"passes {report['tokens'] - len(flips)} are the first choice, {n_ties} near-ties, {len(flips) - n_ties} wrong",
        soft_wrap=True,
        highlight=False,
    )
