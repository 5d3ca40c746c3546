"""What a workspace says about its rewrites: instructions in AGENTS.md, instructions and recipes in .stet.toml.

Text of others, not to be trusted: it goes into the prompt and nowhere else. No key of such a file chooses a model, a
server, a path or a program. Knows files; knows no editor.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from lsp_server.prompts import Recipe
from speculation.errors import ConfigError

SETTINGS_FILE, AGENTS_FILE = ".stet.toml", "AGENTS.md"
PREFIX = "project."
"""Begins the id of a project's recipe, so that none can pass for one of ours."""

MAX_FILE_BYTES = 64 << 10
MAX_CHARS = 4000
"""Of instructions in a prompt, all files together: small models lose the thread, and a CPU reads slowly."""
MAX_TITLE_CHARS = 60
MAX_RECIPES = 20
RECIPE_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


class Used(NamedTuple):
    """A part of the prompt that a project file wrote."""

    path: str
    """Seen from the workspace folder."""
    kind: str
    """Either of: instructions, recipe."""
    n_chars: int
    is_cut: bool

    def json(self) -> dict[str, Any]:
        """As the protocol has it."""
        return {"path": self.path, "kind": self.kind, "characters": self.n_chars, "cut": self.is_cut}

    def __str__(self) -> str:
        return f"{self.path} ({self.kind}, {'the first ' if self.is_cut else ''}{self.n_chars:,} characters)"


@dataclass(frozen=True)
class Project:
    """What holds for one document."""

    instructions: str = ""
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    """By id; those that are not for the document's language as well."""
    problems: tuple[str, ...] = ()
    """A line for the user on each file that can't be used as it is."""
    _used: tuple[Used, ...] = ()
    _settings_path: str = ""

    def used(self, recipe: str | None = None) -> list[Used]:
        """What of it is in a prompt with this recipe."""
        if recipe is None or recipe not in self.recipes:
            return list(self._used)
        return [*self._used, Used(self._settings_path, "recipe", len(self.recipes[recipe].instruction), False)]


def path_of_uri(uri: str) -> Path | None:
    """The file that a URI names; None for what is no local file."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    return Path(url2pathname(parts.path)) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None


def read_project(file: Path, workspaces: Iterable[Path]) -> Project:
    """Read the project files that are nearest to a file, from its folder up to the workspace folder that holds it."""
    try:
        folder = file.parent.resolve()
        roots = [root for root in (workspace.resolve() for workspace in workspaces) if folder.is_relative_to(root)]
    except (OSError, ValueError, RuntimeError):  # no path that can be followed: a NUL in it, a loop of links
        return Project()
    if not roots:
        return Project()
    return _Reader(folder, max(roots, key=lambda root: len(root.parts))).read()


def repository_of(file: Path) -> Path:
    """The workspace of a file that comes without an editor: its git repository, else its folder."""
    folder = file.parent.resolve()
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), folder)


class _Reader:
    """Collects what the files of one place say, and what is wrong with them."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._root = root
        self._problems: list[str] = []
        self._texts: list[str] = []
        self._used: list[Used] = []

    def read(self) -> Project:
        settings_path, agents_path = self._nearest(SETTINGS_FILE), self._nearest(AGENTS_FILE)
        table = self._table(settings_path) if settings_path else {}
        # Ours first: it was written for rewrites, AGENTS.md for programs that do much more.
        if settings_path:
            self._take(settings_path, table.get("instructions", ""))
        if agents_path:
            self._take(agents_path, self._text(agents_path))
        return Project(
            "\n\n".join(self._texts),
            self._recipes(table.get("recipes", {})),
            tuple(self._problems),
            tuple(self._used),
            self._shown(settings_path) if settings_path else "",
        )

    def _nearest(self, name: str) -> Path | None:
        """The nearest file of that name, upwards."""
        for folder in (self._folder, *self._folder.parents):
            if os.path.lexists(folder / name):
                return folder / name
            if folder == self._root:
                break
        return None

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _text(self, path: Path) -> str:
        """A file's text; empty, with a problem, if it can't be read."""
        try:
            return _read(path, self._root).strip()
        except ConfigError as error:
            self._problems.append(f"{self._shown(path)} {error}; the rewrite goes on without it")
            return ""

    def _take(self, path: Path, instructions: Any) -> None:
        """Put a file's instructions into the prompt, as much as there is room for."""
        if not isinstance(instructions, str):
            self._problems.append(f"instructions in {self._shown(path)} must be a text; the rewrite goes on without it")
            return
        given, room = instructions.strip(), MAX_CHARS - sum(used.n_chars for used in self._used)
        if given:
            text = given[:room].rstrip()
            self._texts += [text] if text else []
            self._used.append(Used(self._shown(path), "instructions", len(text), len(text) < len(given)))

    def _table(self, path: Path) -> dict[str, Any]:
        """What .stet.toml says; what it may not say is a problem."""
        try:
            table = tomllib.loads(self._text(path))
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else type(error).__name__
            self._problems.append(f"{self._shown(path)} is no TOML ({reason}); the rewrite goes on without it")
            return {}
        self._refuse("", set(table) - {"instructions", "recipes"})
        return table

    def _refuse(self, prefix: str, keys: Iterable[str]) -> None:
        if names := ", ".join(sorted(f"{prefix}{key}"[:60] for key in keys)):
            self._problems.append(
                f"{SETTINGS_FILE} can't set {names[:200]}: a project file has instructions and recipes only; "
                "put it into your editor's settings"
            )

    def _recipes(self, table: Any) -> dict[str, Recipe]:
        if not isinstance(table, dict):
            self._problems.append(f"recipes in {SETTINGS_FILE} must be a table of tables, [recipes.NAME]")
            return {}
        recipes = {}
        for name, given in list(table.items())[:MAX_RECIPES]:
            try:
                recipes[PREFIX + name] = _recipe(name, given)
            except ConfigError as error:
                self._problems.append(f"[recipes.{name[:40]}] in {SETTINGS_FILE} {error}; it is left out")
            else:
                self._refuse(f"recipes.{name}.", set(given) - {"title", "instruction", "languages"})
        if len(table) > MAX_RECIPES:
            self._problems.append(f"{SETTINGS_FILE} has {len(table)} recipes; the first {MAX_RECIPES} are taken")
        return recipes


def _read(path: Path, root: Path) -> str:
    """A file's text. Raises ConfigError that says what is wrong with it."""
    try:
        if not path.resolve().is_relative_to(root):
            raise ConfigError("is a link that leads out of the workspace")
        if not path.is_file():  # opening a named pipe would wait for ever
            raise ConfigError("is no file that can be read")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"can't be read ({getattr(error, 'strerror', None) or error})") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"has more than {MAX_FILE_BYTES >> 10} KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text") from None


def _recipe(name: str, given: Any) -> Recipe:
    """One [recipes.NAME] table. Raises ConfigError."""
    if not RECIPE_NAME.fullmatch(name):
        raise ConfigError("must have a name of up to 40 letters, digits, - and _")
    if not isinstance(given, dict):
        raise ConfigError("must be a table with title and instruction")
    title, instruction, languages = (given.get(key) for key in ("title", "instruction", "languages"))
    if not isinstance(instruction, str) or not 0 < len(instruction.strip()) <= MAX_CHARS:
        raise ConfigError(f"must have an instruction of up to {MAX_CHARS:,} characters")
    if not isinstance(title, str) or not title.strip():
        raise ConfigError("must have a title")
    if languages is not None and not (isinstance(languages, list) and all(isinstance(each, str) for each in languages)):
        raise ConfigError('must have languages like ["python", "go"], or none for all')
    # In one line, and said to be the project's: a menu must not show what looks like ours.
    return Recipe(f"{' '.join(title.split())[:MAX_TITLE_CHARS]} (project)", instruction.strip(), tuple(languages or ()))
