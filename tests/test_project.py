"""What a workspace may say about rewrites, and what it can't: AGENTS.md and .stet.toml, read and in a prompt."""

# ruff: noqa: F401, F811 - pytest finds fixtures by the names of a module.

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from lsp_editor import CODE, NEW_TWO, Editor, editor, engine, fails, folder, lines
from lsprotocol import types as t
from stub_engine import StubEngine

from lsp_server import project
from lsp_server.project import Project, path_of_uri, read_project, repository_of
from lsp_server.recipe_files import MAX_CHARS, MAX_FILE_BYTES
from lsp_server.recipes import RECIPES, Recipe

RECIPE = '[recipes.log]\ntitle = "Use  our\\nlogger"\ninstruction = "Log it."\n'


def put(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(root: Path, file: str = "sub/deep/a.py") -> Project:
    return read_project(root / file, [root])


def used(project: Project, recipe: str | None = None) -> list[tuple[Any, ...]]:
    return [tuple(each) for each in project.used(recipe)]


# What is found


def test_the_nearest_of_each_counts_up_to_the_workspace_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    put(tmp_path / "AGENTS.md", "outside")
    put(root / "sub/deep/a.py", "")
    assert read(root) == Project()
    put(root / "AGENTS.md", "\ufefftop\n")
    put(root / "sub/.stet.toml", 'instructions = " ours\\n"')
    project = read(root)
    assert project.instructions == "ours\n\ntop"
    assert used(project) == [("sub/.stet.toml", "instructions", 4, False), ("AGENTS.md", "instructions", 3, False)]
    put(root / "sub/deep/AGENTS.md", "deep")
    assert read(root).instructions == "ours\n\ndeep"
    assert read(root, "a.py").instructions == "top"


def test_of_nested_workspace_folders_the_inner_one_is_the_border(tmp_path: Path) -> None:
    put(tmp_path / "AGENTS.md", "outer")
    put(tmp_path / "inner/a.py", "")
    file = tmp_path / "inner/a.py"
    assert read_project(file, [tmp_path, tmp_path / "inner"]) == Project()
    assert read_project(file, [tmp_path]).instructions == "outer"
    assert read_project(file, [tmp_path / "other"]) == Project()
    assert read_project(file, []) == Project()


def test_the_instructions_are_cut_and_that_is_visible(tmp_path: Path) -> None:
    put(tmp_path / ".stet.toml", f'instructions = "{"x" * (MAX_CHARS - 3)}"')
    put(tmp_path / "AGENTS.md", "abcdef")
    project = read(tmp_path, "a.py")
    assert len(project.instructions) == MAX_CHARS + 2  # and the blank line between
    assert used(project)[1] == ("AGENTS.md", "instructions", 3, True)
    assert str(project.used()[1]) == "AGENTS.md (instructions, the first 3 characters)"
    put(tmp_path / ".stet.toml", f'instructions = "{"x" * (2 * MAX_CHARS)}"')
    assert [each[2:] for each in used(read(tmp_path, "a.py"))] == [(MAX_CHARS, True), (0, True)]


def test_recipes_have_ids_and_titles_that_cannot_pass_for_ours(tmp_path: Path) -> None:
    put(tmp_path / ".stet.toml", RECIPE + '[recipes.simplify]\ntitle="S"\ninstruction="I"\nlanguages=["go"]\n')
    project = read(tmp_path, "a.py")
    log, simplify = project.recipes["project.log"], project.recipes["project.simplify"]
    assert log == Recipe("Use our logger (project)", "Log it.")
    assert simplify == Recipe("S (project)", "I", ("go",))
    assert not set(project.recipes) & set(RECIPES)
    assert used(project) == []
    assert used(project, "project.log") == [(".stet.toml", "recipe", 7, False)]


# What is refused, in one line, while the rest goes on


@pytest.mark.parametrize(
    ("toml", "match"),
    [
        ('model = "x"\n[server]\nurl = "http://evil"', r"can't set model, server: .* your editor's settings"),
        ("temperature = 2", "can't set temperature"),
        (RECIPE + 'model = "x"', r"can't set recipes\.log\.model"),
        ("instructions = 5", "instructions in .stet.toml must be a text"),
        ("recipes = 5", "recipes in .stet.toml must be a table"),
        ("[recipes]\nlog = 5", r"\[recipes.log\] .*must be a table"),
        ('[recipes."a b"]\ntitle="t"\ninstruction="i"', "must have a name"),
        ('[recipes.a]\ntitle="t"', "must have an instruction"),
        (f'[recipes.a]\ntitle="t"\ninstruction="{"x" * (MAX_CHARS + 1)}"', "must have an instruction"),
        ('[recipes.a]\ninstruction="i"\ntitle=" "', "must have a title"),
        ('[recipes.a]\ninstruction="i"\ntitle="t"\nlanguages="go"', "must have languages"),
        ("".join(f'[recipes.r{n}]\ntitle="t"\ninstruction="i"\n' for n in range(21)), "21 recipes; the first 20"),
        ("= nonsense", r".stet.toml is no TOML \(.*line 1"),
        ("a = " + "[" * 5000, "is no TOML"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"#" * (MAX_FILE_BYTES + 1), "more than 64 KiB"),
    ],
)
def test_what_a_project_file_may_not_say_is_one_line_and_the_rest_counts(
    tmp_path: Path, toml: str | bytes, match: str
) -> None:
    put(tmp_path / ".stet.toml", toml)
    put(tmp_path / "AGENTS.md", "still here")
    project = read(tmp_path, "a.py")
    (problem,) = project.problems
    assert re.search(match, problem) and "\n" not in problem and len(problem) < 400
    assert project.instructions == "still here"


@pytest.mark.parametrize("kind", ["link out", "folder link", "pipe", "folder", "loop", "dangling"])
def test_what_is_no_file_of_the_workspace_is_not_read(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "root"
    secret = put(tmp_path / "secret/AGENTS.md", "private")
    agents = root / "AGENTS.md"
    root.mkdir()
    file = "a.py"
    match kind:
        case "link out":
            agents.symlink_to(secret)
        case "folder link":
            (root / "sub").symlink_to(secret.parent)
            file = "sub/a.py"
        case "pipe":
            os.mkfifo(agents)  # to open it would wait for ever
        case "folder":
            agents.mkdir()
        case "loop":
            agents.symlink_to(agents)
        case "dangling":
            agents.symlink_to(root / "nothing")
    project = read(root, file)
    assert (project.instructions, used(project)) == ("", [])
    assert len(project.problems) == (kind != "folder link")


def test_a_link_within_the_workspace_is_followed(tmp_path: Path) -> None:
    put(tmp_path / "docs/rules.md", "linked")
    (tmp_path / "AGENTS.md").symlink_to(tmp_path / "docs/rules.md")
    assert read(tmp_path, "a.py").instructions == "linked"


@pytest.mark.parametrize("uri", ["file:///c%3A/a%20b/c.py", "file:///C%3a/a%20b/c.py", "file:///c:/a%20b/c.py"])
def test_a_drive_of_windows_is_one_however_its_colon_is_written(monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    seen: list[str] = []
    monkeypatch.setattr(project, "url2pathname", lambda path: seen.append(path) or path)
    path_of_uri(uri)
    assert seen == [uri.removeprefix("file://").replace("%3A", ":").replace("%3a", ":")]


def test_only_local_files_have_a_workspace(tmp_path: Path) -> None:
    assert path_of_uri("file:///a%20b/c.py") == Path("/a b/c.py")
    for uri in ("untitled:Untitled-1", "vscode-remote://host/a.py", "file://server/a.py", "file://[", "", "a.py"):
        assert path_of_uri(uri) is None
    assert read_project(Path("/a\0b/c.py"), [tmp_path]) == Project()


def test_a_file_without_an_editor_belongs_to_its_repository(tmp_path: Path) -> None:
    file = put(tmp_path / "sub/a.py", "")
    assert repository_of(file) == file.parent
    put(tmp_path / ".git", "gitdir: elsewhere")  # a worktree's is a file
    assert repository_of(file) == tmp_path


# In the server


@pytest.fixture
async def ed(folder: Path, engine: StubEngine, tmp_path: Path) -> AsyncIterator[Editor]:
    workspace = [t.WorkspaceFolder(tmp_path.as_uri(), "root")]
    async with editor(folder, workspace=workspace) as ours:
        yield ours


def system(request: dict[str, Any]) -> str:
    return str(request["messages"][0]["content"])


async def test_instructions_are_in_the_prompt_and_said_and_prepare_has_the_same(
    ed: Editor, engine: StubEngine, tmp_path: Path
) -> None:
    put(tmp_path / "AGENTS.md", "Never use os.path.")
    uri = ed.open(CODE, uri=(tmp_path / "a.py").as_uri())
    engine.answer(NEW_TWO)
    await ed.request("stet/prepare", {"textDocument": {"uri": uri}, "range": lines(4, 6)})
    result = await ed.rewrite(uri, 4, 6)
    warm, asked = engine.requests
    assert system(asked).endswith("Never use os.path.")
    assert system(warm) == system(asked)
    said = {"path": "AGENTS.md", "kind": "instructions", "characters": 18, "cut": False}
    assert result["context"] == ed.progress[-1]["context"] == [said]
    assert not ed.client.messages


async def test_a_recipe_of_the_project_is_offered_and_carried_out(
    ed: Editor, engine: StubEngine, tmp_path: Path
) -> None:
    put(tmp_path / ".stet.toml", RECIPE + '[recipes.other]\ntitle="O"\ninstruction="I"\nlanguages=["go"]\n')
    uri = ed.open(CODE, uri=(tmp_path / "a.py").as_uri())
    here = t.Range(t.Position(4, 0), t.Position(4, 0))
    params = t.CodeActionParams(t.TextDocumentIdentifier(uri), here, t.CodeActionContext([]))
    offered = await ed.raw("textDocument/codeAction", params)
    kinds = [action["kind"].removeprefix("refactor.rewrite.stet.") for action in offered]
    assert kinds == ["type-hints", "docstring", "simplify", "project.log"]
    assert offered[-1]["title"] == "Stet: Use our logger (project)"
    engine.answer(NEW_TWO)
    answer = await ed.request("workspace/executeCommand", offered[-1]["command"])
    assert answer == {"status": "proposed", "applied": True}
    assert "Instruction: Log it." in engine.requests[0]["messages"][1]["content"]
    result = await ed.rewrite(uri, 4, 6, recipe="project.log")
    assert [each["kind"] for each in result["context"]] == ["recipe"]
    await fails(ed.rewrite(uri, 4, 6, recipe="log"), -32602, "no recipe 'log'")


async def test_what_a_project_file_may_not_set_is_said_once_and_changes_nothing(
    ed: Editor, engine: StubEngine, tmp_path: Path
) -> None:
    put(tmp_path / ".stet.toml", 'model = "large"\ntemperature = 9.0\n[server]\nurl = "http://127.0.0.1:9"\n')
    uri = ed.open(CODE, uri=(tmp_path / "a.py").as_uri())
    engine.answer(NEW_TWO)
    for _ in range(2):
        assert (await ed.rewrite(uri, 4, 6))["status"] == "proposed"
    (shown,) = ed.client.messages
    assert "can't set model, server, temperature" in shown.message
    assert engine.requests[0]["temperature"] == 0
    assert engine.requests[0]["model"] == ""


async def test_the_user_can_leave_project_files_out(folder: Path, engine: StubEngine, tmp_path: Path) -> None:
    put(tmp_path / "AGENTS.md", "Never use os.path.")
    put(tmp_path / ".stet.toml", "projectFiles = true")
    workspace = [t.WorkspaceFolder(tmp_path.as_uri(), "root")]
    async with editor(folder, options={"projectFiles": False}, workspace=workspace) as ed:
        uri = ed.open(CODE, uri=(tmp_path / "a.py").as_uri())
        engine.answer(NEW_TWO)
        assert (await ed.rewrite(uri, 4, 6))["context"] == []
        assert "os.path" not in system(engine.requests[0])
        assert not ed.client.messages


async def test_a_folder_that_is_added_counts_and_one_that_is_removed_does_not(
    ed: Editor, engine: StubEngine, tmp_path: Path
) -> None:
    other = put(tmp_path.parent / f"{tmp_path.name}-other/AGENTS.md", "other").parent
    uri = ed.open(CODE, uri=(other / "a.py").as_uri())
    engine.answer(NEW_TWO)
    folder = t.WorkspaceFolder(other.as_uri(), "other")
    for added, removed, wanted in (([], [], 0), ([folder], [], 1), ([], [folder], 0)):
        event = t.WorkspaceFoldersChangeEvent(added=added, removed=removed)
        ed.client.workspace_did_change_workspace_folders(t.DidChangeWorkspaceFoldersParams(event))
        assert len((await ed.rewrite(uri, 4, 6))["context"]) == wanted
