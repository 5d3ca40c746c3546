"""What a workspace says about its rewrites: instructions in AGENTS.md, instructions and recipes in .stet.toml.

Text of others, not to be trusted: it goes into the prompt and nowhere else. No key of such a file chooses a model, a
server, a path or a program. Knows files; knows no editor.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from lsp_server.recipe_files import MAX_CHARS, parse_toml, read_recipes, read_text, refuse
from lsp_server.recipes import PROJECT, Recipe
from speculation.errors import ConfigError

SETTINGS_FILE, AGENTS_FILE = ".stet.toml", "AGENTS.md"
DRIVE = re.compile("^/([a-z])%3a", re.IGNORECASE)


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
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    # VS Code writes the colon of a drive as %3A, which url2pathname takes for a part of a name on Windows.
    return Path(url2pathname(DRIVE.sub(r"/\1:", parts.path)))


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
            table = parse_toml(self._text(path))
        except ConfigError as error:
            self._problems.append(f"{self._shown(path)} {error}; the rewrite goes on without it")
            return {}
        refuse(set(table) - {"instructions", "recipes"}, SETTINGS_FILE, "instructions and recipes", self._problems)
        return table

    def _recipes(self, table: Any) -> dict[str, Recipe]:
        recipes = read_recipes(table, SETTINGS_FILE, PROJECT, self._problems)
        # Said to be the project's: a menu must not show what looks like ours.
        return {name: recipe._replace(title=f"{recipe.title} (project)") for name, recipe in recipes.items()}


def _read(path: Path, root: Path) -> str:
    """The text of a file of the workspace. Raises ConfigError that says what is wrong with it."""
    try:
        if not path.resolve().is_relative_to(root):
            raise ConfigError("is a link that leads out of the workspace")
    except (OSError, RuntimeError) as error:  # a loop of links
        raise ConfigError(f"can't be read ({getattr(error, 'strerror', None) or error})") from None
    return read_text(path)
