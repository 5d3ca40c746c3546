"""The floors of the house: who may import whom, which package lives where, how long a file may get."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HALVES = ("lsp_server", "speculation")

# From the top down; a module may import from its own floor and those below. A name stands for what is in it as well.
FLOORS = {
    "lsp_server": (
        ("cli", "command", "verify", "doctor", "__main__"),
        ("server",),
        ("rewrite", "params", "question", "code_actions", "accept", "confirm", "protocol", "workdone"),
        (
            "session",
            "jobs",
            "rebase",
            "writing",
            "edits",
            "project",
            "recipes",
            "recipe_files",
            "prompts",
            "form",
            "guards",
            "cleaning",
            "surroundings",
            "runaway",
        ),
        (
            "documents",
            "traced",
            "scopes",
            "syntax",
            "indentation",
            "progress",
            "settings",
            "engine_client",
            "languages",
            "compare",
            "placeholders",
            "wire",
        ),
    ),
    "speculation": (
        ("cli",),
        ("serving", "bench"),
        ("engine",),
        ("decoding", "drafters", "gamma", "acceptance", "models"),
        ("survival",),
        ("types", "alignment", "priors", "config", "errors", "logs"),
    ),
}
MAX_LINES = 400
MODELS = ("speculation/models/",)
HOMES = {
    "torch": MODELS,
    "transformers": MODELS,
    "tokenizers": MODELS,
    "safetensors": MODELS,
    "huggingface_hub": MODELS,
    "gguf": MODELS,
    "sqlite_utils": ("speculation/acceptance.py",),
    "sqlite3": ("speculation/acceptance.py",),
    "matplotlib": ("speculation/cli/plot.py",),
    "tree_sitter": ("lsp_server/syntax.py", "lsp_server/scopes.py"),
    "tree_sitter_language_pack": ("lsp_server/syntax.py",),
    "rapidfuzz": ("speculation/alignment.py", "lsp_server/"),
    "pygls": ("lsp_server/",),
    "lsprotocol": ("lsp_server/",),
    "starlette": ("speculation/serving/",),
    "uvicorn": ("speculation/serving/",),
}
LSP_SERVER_MAY_USE = {"speculation.config", "speculation.errors", "speculation.serving.process"}
COMMAND_LINE_MAY_USE = LSP_SERVER_MAY_USE | {
    "speculation.cli",
    "speculation.cli.verify",
    "speculation.cli.doctor",
    "speculation.logs",
}
# speculation/__init__.py is the half's face: it names Engine, and imports it on first use.
FACE = "speculation"


@cache
def modules() -> dict[str, Path]:
    """Every module of both halves by its dotted name."""
    found = {}
    for half in HALVES:
        for path in sorted((ROOT / half).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str) -> frozenset[str]:
    """The dotted names that a module imports, wherever in the file it does; modules of ours in full."""
    path = modules()[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            # `from package import module` names the module, `from module import name` the module too.
            inner = {f"{origin}.{alias.name}" for alias in node.names} & set(modules())
            outer = {origin} if len(inner) < len(node.names) else set()
            found |= inner | outer
    return frozenset(found)


def ours(module: str) -> Iterator[str]:
    """The modules of its own half that a module imports."""
    half = module.split(".")[0]
    return (name for name in imports(module) if name.split(".")[0] == half and name != module)


def floor(module: str) -> int:
    """Counted from the top."""
    half, _, rest = module.partition(".")
    for level, names in enumerate(FLOORS[half]):
        if rest.split(".")[0] in names:
            return level
    raise AssertionError(f"{module} stands on no floor: add it to FLOORS, where it belongs")


def is_at_home(path: Path, homes: tuple[str, ...]) -> bool:
    return path.relative_to(ROOT).as_posix().startswith(homes)


def test_the_main_rooms_are_there() -> None:
    """So that nothing below is true because there is nothing."""
    for half, floors in FLOORS.items():
        for name in (name for names in floors for name in names):
            assert f"{half}.{name}" in modules(), f"{half}.{name} is gone: take it out of FLOORS"
    assert {"torch", "transformers"} <= imports("speculation.models.cached_lm")
    assert "speculation.decoding" in imports("speculation.engine")
    assert "speculation.serving.process" in imports("lsp_server.engine_client")
    used = {name.split(".")[0] for module in modules() for name in imports(module)}
    assert {"pygls", "lsprotocol", "sqlite_utils", "rapidfuzz", "starlette", "uvicorn"} <= used


@pytest.mark.parametrize("half", HALVES)
def test_no_arrow_goes_up(half: str) -> None:
    for module in modules():
        if module.startswith(f"{half}."):
            for name in ours(module):
                if name != half:
                    assert floor(name) >= floor(module), f"{module} imports {name} from a floor above"


@pytest.mark.parametrize("half", HALVES)
def test_no_circle(half: str) -> None:
    arrows = {module: set(ours(module)) for module in modules() if module.split(".")[0] == half and module != FACE}
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("package", HOMES)
def test_a_package_is_used_in_its_own_room_only(package: str) -> None:
    for module, path in modules().items():
        if package in {name.split(".")[0] for name in imports(module)}:
            assert is_at_home(path, HOMES[package]), f"{module} imports {package}"


def test_the_halves_meet_only_where_they_may() -> None:
    for module in modules():
        names = {name for name in imports(module) if name.split(".")[0] in HALVES}
        if module.startswith("speculation"):
            assert not {name for name in names if name.startswith("lsp_server")}, module
        else:
            is_command_line = module in ("lsp_server.cli", "lsp_server.verify", "lsp_server.doctor")
            allowed = COMMAND_LINE_MAY_USE if is_command_line else LSP_SERVER_MAY_USE
            strangers = {name for name in names if name.startswith("speculation")} - allowed
            assert not strangers, f"{module} imports {strangers}"


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    folders = [*HALVES, "tests", "editors"]
    files = [path for folder in folders for kind in ("py", "lua", "ts") for path in (ROOT / folder).rglob(f"*.{kind}")]
    assert len(files) > 60
    for path in files:
        if "node_modules" not in path.parts:
            n_lines = len(path.read_text(encoding="utf-8").splitlines())
            assert n_lines <= MAX_LINES, f"{path.relative_to(ROOT)} has {n_lines} lines; {MAX_LINES} at most"


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("lsp_server.server", {"tree_sitter", "torch", "transformers", "starlette", "uvicorn", "sqlite_utils"}),
        ("lsp_server.cli", {"tree_sitter", "torch", "transformers", "starlette", "uvicorn"}),
        ("speculation.config", {"torch", "transformers", "starlette", "sqlite_utils"}),
        ("speculation.serving.process", {"torch", "transformers", "starlette", "uvicorn"}),
        ("speculation.serving.app", {"torch", "transformers"}),
        ("speculation.cli.stats", {"torch", "transformers", "matplotlib"}),
        ("speculation.drafters.chain", {"torch", "transformers"}),
        ("speculation.decoding", {"torch", "transformers"}),
    ],
)
def test_a_fresh_interpreter_does_not_pay_for_what_it_does_not_need(module: str, unwanted: set[str]) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    names = {name.split(".")[0] for name in loaded.stdout.split()}
    assert module.split(".")[0] in names
    assert not names & unwanted
