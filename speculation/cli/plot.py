"""What was learned as a picture: survival curves, gamma by file type, T(q). Knows the report of `stet stats`."""

from pathlib import Path
from typing import Any

from speculation.errors import ConfigError

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError:
    raise ConfigError("--plot needs matplotlib: pip install 'stet-lsp[plot]'") from None

from speculation.priors import BUCKET_EDGES, PRIORS
from speculation.survival import ALL_FILE_TYPES, Acceptance

N_SURVIVAL = 64
MATCH_LEN = 8
"""Survival is shown for drafts behind so many matching tokens; the small LM's does not depend on it."""
N_FILE_TYPES = 12


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw the target with the most requests. Raises ConfigError unless it is a .png or .svg that can be written."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(f"--plot draws .png and .svg files, not {path.name!r}")
    target, figures = max(report["targets"].items(), key=lambda item: item[1][ALL_FILE_TYPES]["requests"])
    figure = Figure(figsize=(15, 4.5), layout="constrained")
    survival, gamma, pass_time = figure.subplots(1, 3)
    figure.suptitle(target)
    _draw_survival(survival, figures[ALL_FILE_TYPES]["sources"])
    _draw_gamma(gamma, figures)
    _draw_pass_times(pass_time, report["pass_times"])
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise ConfigError(f"can't write {path}: {error.strerror}") from None


def _draw_survival(axes: Axes, sources: dict[str, Any]) -> None:
    cells = {
        (source, ALL_FILE_TYPES, BUCKET_EDGES.index(bucket["from"])): (bucket["tested"], bucket["accepted"])
        for source, counts in sources.items()
        for bucket in counts["by_match_length"]
    }
    acceptance = Acceptance(ALL_FILE_TYPES, cells)
    for source in PRIORS:
        if source in sources:
            survival = [1.0]
            for alpha in acceptance.alphas(source, 0 if source == "lm" else MATCH_LEN, N_SURVIVAL):
                survival.append(survival[-1] * alpha)
            axes.plot(survival, label=f"{source} ({sources[source]['tested']:.0f} tested)")
    axes.set(
        title=f"survival of a draft behind {MATCH_LEN} matching tokens",
        xlabel="draft tokens k",
        ylabel="S_k: all k accepted",
        ylim=(0, 1.02),
        xlim=(0, N_SURVIVAL),
    )
    _finish(axes)


def _draw_gamma(axes: Axes, figures: dict[str, Any]) -> None:
    rows = [(name or "all", row) for name, row in figures.items() if row["gamma"] is not None]
    rows = sorted(rows, key=lambda item: -item[1]["requests"])[:N_FILE_TYPES][::-1]
    bars = axes.barh([name for name, _ in rows], [row["gamma"] for _, row in rows])
    labels = [f"{row['gamma']:.1f}  ({row['speedup'] or 0:.1f}x)" for _, row in rows]
    axes.bar_label(bars, labels, padding=3)
    axes.margins(x=0.25)
    axes.set(title="gamma chosen (speed-up)", xlabel="drafted tokens a pass")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_pass_times(axes: Axes, pass_times: dict[str, dict[int, float]]) -> None:
    for machine, seconds in pass_times.items():
        axes.plot(list(seconds), [1000 * s for s in seconds.values()], marker="o", label=machine)
    axes.set(title="T(q): one target pass", xlabel="positions q", ylabel="milliseconds")
    if pass_times:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda q, _: f"{q:g}")
        axes.set_ylim(bottom=0)
    _finish(axes)


def _finish(axes: Axes) -> None:
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.lines:
        axes.legend(fontsize="small")
