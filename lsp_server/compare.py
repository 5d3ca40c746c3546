"""A rewrite beside the same rewrite by plain decoding, as a table. Knows figures, no engine and no file."""

from collections.abc import Callable, Mapping
from typing import Any

from rich.table import Table


def comparison(stats: Mapping[str, Any], plain: Mapping[str, Any], is_identical: bool) -> Table:
    """Two columns of figures, and whether the output was the same."""
    table = Table("", "Stet", "plain decoding", caption=f"output identical: {'yes' if is_identical else 'no'}")
    rows: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
        ("tokens", lambda s: f"{s['tokens']}"),
        ("target passes", lambda s: _figure(s["passes"])),
        ("tokens per pass", lambda s: _figure(s["passes"] and s["tokens"] / s["passes"], 1)),
        ("copied share", lambda s: "" if s["copiedShare"] is None else f"{s['copiedShare']:.0%}"),
        ("tokens/s", lambda s: _figure(s["tokensPerSecond"], 1)),
        ("seconds of decoding", lambda s: _figure(s["decodeSeconds"], 1)),
    )
    for name, cell in rows:
        table.add_row(name, cell(stats), cell(plain))
    if stats["decodeSeconds"] and plain["decodeSeconds"]:
        table.add_row("speed-up", f"{plain['decodeSeconds'] / stats['decodeSeconds']:.1f}x", "1.0x")
    return table


def _figure(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:.{digits}f}"
