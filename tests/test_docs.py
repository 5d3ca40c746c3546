"""The README and the other documents say what is true: each command parses, each setting and preset stands in them."""

import inspect
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lsp_server.cli import main
from lsp_server.settings import KEYS, Settings
from speculation.config import PRESETS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("editors/*/README.md"))]


def shell_lines(text: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.S)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def check_parses(arguments: list[str]) -> None:
    """The command exists and takes these options and arguments; nothing is run."""
    command: click.Command = main
    context = click.Context(main, info_name="stet")
    while isinstance(command, click.Group):
        name, arguments = arguments[0], arguments[1:]
        found = command.get_command(context, name)
        assert found is not None, f"no command {name!r} in {context.command_path}"
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.parse_args(context, list(arguments))


@pytest.mark.parametrize("line", [line for line in shell_lines(README) if line.startswith("stet ")])
def test_every_command_in_the_readme_parses(line: str) -> None:
    check_parses(shlex.split(line)[1:])


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def test_every_command_and_option_is_listed_with_a_help_text() -> None:
    """UPDATE_GOLDEN=1 writes the list anew."""
    sections = []
    for name, command in commands(main, "stet"):
        arguments = [
            parameter.human_readable_name for parameter in command.params if isinstance(parameter, click.Argument)
        ]
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        assert command.help and all(option.help for option in options), name
        rows = [f"| `{', '.join(option.opts)}` | {option.help} |" for option in options]
        table = "\n".join(["| option | |", "|---|---|", *rows]) if rows else "No options."
        title = " ".join([name, *arguments])
        sections.append(f"## `{title}`\n\n{inspect.cleandoc(command.help)}\n\n{table}\n")
    listed = "# Commands\n\nAs `--help` says it; a test keeps this page up to date.\n\n" + "\n".join(sections)
    path = ROOT / "docs/commands.md"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(listed, "utf-8")
    assert path.read_text("utf-8") == listed


def test_the_readme_has_its_commands() -> None:
    lines = shell_lines(README)
    assert {"make demo", "make test"} <= set(lines)
    assert sum(line.startswith("stet ") for line in lines) >= 5


@pytest.mark.parametrize("line", [line for line in shell_lines(README) if line.startswith("make ")])
def test_every_make_target_in_the_readme_exists(line: str) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(rf"^{line.split()[1]}:", makefile, flags=re.M)


def test_every_option_that_the_readme_names_exists() -> None:
    rewrite = main.get_command(click.Context(main), "rewrite")
    assert rewrite is not None
    known = {option for parameter in rewrite.params for option in parameter.opts}
    sentence = re.search(r"`stet rewrite` also takes (.*?)\. The engine", README, flags=re.S)
    assert sentence is not None
    named = set(re.findall(r"`(--[a-z-]+)`", sentence[1]))
    assert named and named <= known


@pytest.mark.parametrize("document", ["README.md", "docs/protocol.md"])
def test_every_setting_stands_in_the_documents_with_its_default(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (`[^`]+`|none) \|", text, flags=re.M))
    assert {name for name in rows if name in KEYS} == set(KEYS)
    for name, (field, _, _) in KEYS.items():
        default = getattr(Settings(), field)
        said = rows[name].strip('`"')
        shown = {None: "none", True: "true"}.get(default, f"{default:g}" if isinstance(default, float) else default)
        assert said == shown, name


def test_every_preset_stands_in_the_readme() -> None:
    for preset in PRESETS.values():
        row = re.search(rf"^\| `{preset.name}`.*$", README, flags=re.M)
        assert row and preset.target.split("/")[1] in row[0]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_between_documents_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text("utf-8"))
    missing = [link for link in links if not (document.parent / link).exists()]
    assert not missing


NVIM = ROOT / "editors/nvim"


def test_every_neovim_command_is_documented_and_every_one_in_a_document_defined() -> None:
    plugin = (NVIM / "plugin/stet.lua").read_text("utf-8")
    defined = {f"Stet{name}" for name in re.findall(r"^add\('(\w*)'", plugin, flags=re.M)}
    readme, help_page = (NVIM / "README.md").read_text("utf-8"), (NVIM / "doc/stet.txt").read_text("utf-8")
    assert set(re.findall(r":(Stet\w*)", README)) <= defined
    assert set(re.findall(r":(?:\[range\])?(Stet\w*)", readme)) == defined
    assert set(re.findall(r"\*:(Stet\w*)\*", help_page)) == defined
    maps = {"stet" + re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", name[4:]) for name in defined}
    assert set(re.findall(r"\*<Plug>\(([\w-]+)\)\*", help_page)) == maps


def test_every_configuration_for_other_editors_is_well_formed_and_starts_the_server() -> None:
    blocks = re.findall(r"```(toml|json|elisp)\n(.*?)```", (ROOT / "docs/editors.md").read_text("utf-8"), flags=re.S)
    toml, elisp, *_, zed, kate = [code for _, code in blocks]
    helix = tomllib.loads(toml)
    assert helix["language"][0]["language-servers"][-1] == "stet"
    server, lent = helix["language-server"]["stet"], json.loads(zed)["lsp"]["pylsp"]
    started = re.search(r'\. \("(stet)" "(.*?)"\)', elisp)
    assert started
    for command in (
        [server["command"], *server["args"]],
        list(started.groups()),
        [Path(lent["binary"]["path"]).name, *lent["binary"]["arguments"]],
        json.loads(kate)["servers"]["python"]["command"],
    ):
        assert command[0] == "stet"
        check_parses(command[1:])
    settings = (
        server["config"],
        lent["initialization_options"],
        json.loads(kate)["servers"]["python"]["initializationOptions"],
    )
    assert all(set(each) <= set(KEYS) for each in settings)
    for kind, code in blocks:
        if kind == "elisp":
            code = re.sub(r'"(?:\\.|[^"])*"', "", code)
            assert code.count("(") == code.count(")") and code.count("[") == code.count("]")


MANIFEST = json.loads((ROOT / "editors/vscode/package.json").read_text("utf-8"))
VSCODE_README = (ROOT / "editors/vscode/README.md").read_text("utf-8")


def test_every_setting_stands_in_vs_code_s_manifest_with_its_default() -> None:
    properties = MANIFEST["contributes"]["configuration"]["properties"]
    for name, (field, _, _) in KEYS.items():
        default = getattr(Settings(), field)
        assert properties[f"stet.{name}"]["default"] == ("" if default is None else default), name


def test_every_setting_and_command_of_the_vs_code_extension_stands_in_its_readme() -> None:
    rows = dict(re.findall(r"^\| `(stet\.[\w.]+)` \| (`[^`]+`|none) \|", VSCODE_README, flags=re.M))
    for name, property in MANIFEST["contributes"]["configuration"]["properties"].items():
        assert rows[name] == (f"`{json.dumps(property['default'])}`" if property["default"] != "" else "none"), name
    for command in MANIFEST["contributes"]["commands"]:
        assert f"Stet: {command['title']}" in VSCODE_README


def test_every_yes_in_the_table_of_features_has_a_test() -> None:
    sources = "\n".join(file.read_text("utf-8") for file in (ROOT / "tests" / "editor").glob("*.py"))
    hosts = "\n".join(file.read_text("utf-8") for file in (ROOT / "editors/vscode/test/host").glob("*.ts"))
    rows = re.findall(r"^\| (?!\||---)(.*?) \|$", (ROOT / "docs/features.md").read_text("utf-8"), flags=re.M)
    assert len(rows) > 25
    for row in rows:
        for name in re.findall(r"`(test_\w+)`", row):
            assert f"def {name}(" in sources, name
        in_vs_code = row.split(" | ")[1]
        if in_vs_code.startswith("yes") and "`test_" not in in_vs_code:
            assert f"'{in_vs_code.removeprefix('yes: ')}'" in hosts, in_vs_code
