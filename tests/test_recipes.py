"""Ready-made instructions: which language has which, the user's own file, and how editors get them."""

# ruff: noqa: F401, F811 - pytest finds fixtures by the names of a module.

import re
from pathlib import Path
from typing import Any

import pytest
from lsp_editor import CODE, NEW_TWO, Editor, ed, editor, engine, fails, folder, lines
from lsprotocol import types as t
from stub_engine import StubEngine

from lsp_server.recipe_files import MAX_FILE_BYTES, RECIPE_NAME, UserRecipes, read_user_recipes, user_recipes_path
from lsp_server.recipes import COMMON, RECIPES, Recipe, kind_of, listed

ALL = list(RECIPES)
GENERAL = [name for name in ALL if name != "type-hints"]
COMMENTED = ["comments", "translate-comments", "fix-diagnostic"]

LANGUAGES: list[tuple[str, list[str]]] = [
    ("python", ALL),
    ("typescriptreact", ALL),
    ("rust", GENERAL),
    ("a language that nobody has heard of", GENERAL),
    ("", GENERAL),
    ("plaintext", GENERAL),  # An untitled buffer with code in it.
    ("yaml", COMMENTED),
    ("css", ["simplify", "comments", "translate-comments", "modernise", "fix-diagnostic"]),
    ("json", ["fix-diagnostic"]),
    ("markdown", ["fix-diagnostic"]),
]


@pytest.mark.parametrize(("language", "ids"), LANGUAGES)
def test_each_language_has_what_makes_sense_in_it(language: str, ids: list[str]) -> None:
    assert [each["id"] for each in listed(RECIPES, language)] == ids


def test_all_are_short_enough_for_a_menu_and_for_a_small_model() -> None:
    assert set(COMMON) <= set(RECIPES)
    for name, recipe in RECIPES.items():
        assert RECIPE_NAME.fullmatch(name) and len(recipe.title) <= 32
        for words in (recipe.instruction, *recipe.by_language.values()):
            assert 20 <= len(words) <= 300 and words.endswith(".") and "\n" not in words
        assert set(recipe.by_language) <= {language for language in recipe.by_language if recipe.suits(language)}


@pytest.mark.parametrize(
    ("name", "language", "match"),
    [
        ("naming", "python", "variables and functions to snake_case, "),
        ("naming", "java", "variables and functions to camelCase, "),
        ("naming", "brainfuck", "usual naming convention of the language, everywhere"),
        ("modernise", "python", "f-strings"),
        ("modernise", "fortran", "current features of the language. The code"),
    ],
)
def test_where_more_is_known_of_a_language_more_is_said(name: str, language: str, match: str) -> None:
    assert re.search(match, RECIPES[name].words(language))


# The user's own


OWN = '[recipes.log]\ntitle = " Our  logger"\ninstruction = "Log it."\nlanguages = ["python"]\n'


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = user_recipes_path()
    path.parent.mkdir(parents=True)
    return path


def test_the_user_s_recipes_have_ids_of_their_own(own: Path) -> None:
    assert read_user_recipes() == UserRecipes()
    own.write_text(OWN + '[recipes.simplify]\ntitle = "S"\ninstruction = "I"\n', encoding="utf-8")
    assert read_user_recipes() == UserRecipes(
        {"user.log": Recipe("Our logger", "Log it.", ("python",)), "user.simplify": Recipe("S", "I")}
    )
    assert [kind_of(name) for name in ("user.log", "project.log", "simplify")] == ["user", "project", "builtin"]


@pytest.mark.parametrize(
    ("text", "match", "n_left"),
    [
        ('model = "x"\n' + OWN, r"recipes.toml can't set model: it has recipes only; the rest is in your editor's", 1),
        (OWN + "temperature = 1\n", r"can't set recipes\.log\.temperature: it has title, instruction and languages", 1),
        (OWN + '[recipes.a]\ntitle = "A"\n', r"\[recipes.a\] in recipes.toml must have an instruction", 1),
        ("recipes = 5", "recipes in recipes.toml must be a table", 0),
        ("= nonsense", r"/recipes.toml is no TOML \(.*line 1.*\); the recipes in it are left out", 0),
        (b"\xff\xfe", "is not UTF-8", 0),
        (b"#" * (MAX_FILE_BYTES + 1), "more than 64 KiB", 0),
    ],
)
def test_what_can_not_be_used_is_told_in_one_line(own: Path, text: str | bytes, match: str, n_left: int) -> None:
    own.write_bytes(text if isinstance(text, bytes) else text.encode())
    user = read_user_recipes()
    (problem,) = user.problems
    assert re.search(match, problem) and "\n" not in problem
    assert len(user.recipes) == n_left


@pytest.mark.parametrize("kind", ["folder", "dangling link"])
def test_what_is_no_file_is_told_too(own: Path, kind: str) -> None:
    if kind == "folder":
        own.mkdir()
    else:
        own.symlink_to(own.parent / "nothing")
    (problem,) = read_user_recipes().problems
    assert "no file that can be read" in problem


def test_the_user_may_keep_the_file_elsewhere(own: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").write_text(OWN, encoding="utf-8")
    own.symlink_to(tmp_path / "dotfiles")
    assert list(read_user_recipes().recipes) == ["user.log"]


# In the server


def put_own(folder: Path, text: str) -> None:
    path = folder / "config/stet/recipes.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


async def recipes_for(ed: Editor, uri: str) -> Any:
    return (await ed.request("stet/recipes", {"textDocument": {"uri": uri}}))["recipes"]


async def test_an_editor_is_told_the_recipes_of_a_document(folder: Path, engine: StubEngine, tmp_path: Path) -> None:
    put_own(folder, OWN)
    (tmp_path / ".stet.toml").write_text('[recipes.x]\ntitle = "X"\ninstruction = "I"\n', encoding="utf-8")
    async with editor(folder, workspace=[t.WorkspaceFolder(tmp_path.as_uri(), "root")]) as ed:
        told = await recipes_for(ed, ed.open(CODE, uri=(tmp_path / "a.py").as_uri()))
        assert told[:1] == [{"id": "type-hints", "title": "Add type hints", "kind": "builtin"}]
        assert told[len(ALL) :] == [
            {"id": "user.log", "title": "Our logger", "kind": "user"},
            {"id": "project.x", "title": "X (project)", "kind": "project"},
        ]
        told = await recipes_for(ed, ed.open("{}\n", "json", (tmp_path / "a.json").as_uri()))
        assert [each["id"] for each in told] == ["fix-diagnostic", "project.x"]


async def test_a_recipe_of_the_user_is_offered_and_carried_out(ed: Editor, engine: StubEngine, folder: Path) -> None:
    put_own(folder, OWN)
    uri = ed.open(CODE)
    kinds = [action["kind"] for action in await actions(ed, uri, lines(4, 4))]
    assert kinds == [f"refactor.rewrite.stet.{name}" for name in (*COMMON, "user.log")]
    engine.answer(NEW_TWO)
    result = await ed.rewrite(uri, 4, 6, recipe="user.log")
    assert (result["instruction"], result["context"]) == ("Our logger", [])
    assert "Instruction: Log it.\n" in engine.requests[0]["messages"][1]["content"]


async def test_problems_of_the_user_s_file_are_told_once(ed: Editor, engine: StubEngine, folder: Path) -> None:
    put_own(folder, "= nonsense")
    uri = ed.open(CODE)
    for _ in range(2):
        assert len(await recipes_for(ed, uri)) == len(ALL)
    engine.answer(NEW_TWO)
    await ed.rewrite(uri, 4, 6)
    (shown,) = ed.client.messages
    assert "recipes.toml is no TOML" in shown.message


async def actions(ed: Editor, uri: str, span: dict[str, Any], **context: Any) -> list[dict[str, Any]]:
    start, end = (t.Position(**span[side]) for side in ("start", "end"))
    params = t.CodeActionParams(
        t.TextDocumentIdentifier(uri), t.Range(start, end), t.CodeActionContext(**{"diagnostics": [], **context})
    )
    offered: list[dict[str, Any]] = await ed.raw("textDocument/codeAction", params)
    return offered


async def test_a_selection_and_a_menu_of_refactorings_have_all_code_actions_a_cursor_has_few(
    ed: Editor, engine: StubEngine
) -> None:
    uri = ed.open(CODE)
    all_kinds = [f"refactor.rewrite.stet.{name}" for name in ALL if name != "fix-diagnostic"]
    here, selection = lines(4, 4), lines(4, 6)
    for span, context, kinds in (
        (here, {}, [f"refactor.rewrite.stet.{name}" for name in COMMON]),
        (selection, {}, all_kinds),
        (here, {"only": ["refactor.rewrite"]}, all_kinds),
        (here, {"only": ["refactor.rewrite.stet.tests"]}, ["refactor.rewrite.stet.tests"]),
    ):
        assert [action["kind"] for action in await actions(ed, uri, span, **context)] == kinds
    assert await actions(ed, ed.open("# A\n", "markdown", "file:///demo/a.md"), lines(0, 1)) == []


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({}, "textDocument must be"),
        ({"textDocument": {}}, "must be"),
        ({"textDocument": {"uri": "x"}}, "x is not open"),
    ],
)
async def test_recipes_are_for_an_open_document(ed: Editor, engine: StubEngine, params: Any, match: str) -> None:
    await fails(ed.request("stet/recipes", params), -32602, match)
