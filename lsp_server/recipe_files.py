"""Recipes that are written in TOML files: how such a file is read, and the user's own one. Knows no workspace."""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from lsp_server.recipes import USER, Recipe
from speculation.errors import ConfigError

MAX_FILE_BYTES = 64 << 10
MAX_CHARS = 4000
"""Of an instruction: small models lose the thread, and a CPU reads slowly."""
MAX_TITLE_CHARS = 60
MAX_RECIPES = 20
RECIPE_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


def user_recipes_path() -> Path:
    """Where the user's own recipes stand."""
    return platformdirs.user_config_path("stet") / "recipes.toml"


@dataclass(frozen=True)
class UserRecipes:
    """The user's own recipes."""

    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    """By id."""
    problems: tuple[str, ...] = ()
    """A line for the user on each thing that can't be used."""


def read_user_recipes() -> UserRecipes:
    """Read the user's recipes.toml; there may be none."""
    path = user_recipes_path()
    if not os.path.lexists(path):
        return UserRecipes()
    problems: list[str] = []
    try:
        table = parse_toml(read_text(path))
    except ConfigError as error:
        return UserRecipes(problems=(f"{path} {error}; the recipes in it are left out",))
    refuse(set(table) - {"recipes"}, path.name, "recipes", problems)
    recipes = read_recipes(table.get("recipes", {}), path.name, USER, problems)
    return UserRecipes(recipes, tuple(problems))


def read_text(path: Path) -> str:
    """A file's text. Raises ConfigError that says what is wrong with it."""
    try:
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


def parse_toml(text: str) -> dict[str, Any]:
    """A file's table. Raises ConfigError."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else type(error).__name__
        raise ConfigError(f"is no TOML ({reason})") from None


def refuse(keys: Iterable[str], file_name: str, has: str, problems: list[str]) -> None:
    """Complain about keys that such a file can't set."""
    if names := ", ".join(sorted(key[:60] for key in keys)):
        problems.append(
            f"{file_name} can't set {names[:200]}: it has {has} only; the rest is in your editor's settings"
        )


def read_recipes(table: Any, file_name: str, prefix: str, problems: list[str]) -> dict[str, Recipe]:
    """The [recipes.NAME] of a file, by id. What can't be used is left out and told in a line each."""
    if not isinstance(table, dict):
        problems.append(f"recipes in {file_name} must be a table of tables, [recipes.NAME]")
        return {}
    recipes = {}
    for name, given in list(table.items())[:MAX_RECIPES]:
        try:
            recipes[prefix + name] = _recipe(name, given)
        except ConfigError as error:
            problems.append(f"[recipes.{name[:40]}] in {file_name} {error}; it is left out")
        else:
            others = {f"recipes.{name}.{key}" for key in set(given) - {"title", "instruction", "languages"}}
            refuse(others, file_name, "title, instruction and languages of a recipe", problems)
    if len(table) > MAX_RECIPES:
        problems.append(f"{file_name} has {len(table)} recipes; the first {MAX_RECIPES} are taken")
    return recipes


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
    return Recipe(" ".join(title.split())[:MAX_TITLE_CHARS], instruction.strip(), tuple(languages or ()))
