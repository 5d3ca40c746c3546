"""Ready-made instructions, by language. Text only: knows no document, no file and no model.

Small models carry them out: each is short, names things, and says what must stay.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

PROSE = ("markdown", "latex", "tex", "bibtex", "restructuredtext", "rst", "asciidoc", "org", "gitcommit", "git-commit")
DATA = ("json", "jsonc", "json5", "jsonl", "csv", "tsv", "yaml", "toml", "ini", "dosini", "properties", "xml", "diff")
MARKUP = ("html", "css", "scss", "sass", "less")
NO_COMMENTS = ("json", "jsonl", "csv", "tsv", "diff")


class Recipe(NamedTuple):
    """A ready-made instruction."""

    title: str
    instruction: str
    languages: tuple[str, ...] = ()
    """LSP language ids that it is for; empty: all but other_languages."""
    other_languages: tuple[str, ...] = ()
    """Those that it is not for. Editors know languages that we don't, so these are listed."""
    by_language: Mapping[str, str] = {}
    """Instructions for languages about which more can be said."""

    def suits(self, language_id: str) -> bool:
        """Whether it is offered for a language."""
        return language_id in (self.languages or [language_id]) and language_id not in self.other_languages

    def words(self, language_id: str) -> str:
        """The instruction."""
        return self.by_language.get(language_id, self.instruction)


CAMEL = "variables and functions to camelCase, classes and types to PascalCase, constants to UPPER_CASE"
SNAKE = "variables and functions to snake_case, classes and types to PascalCase, constants to UPPER_CASE"
PASCAL = "variables and parameters to camelCase, methods, properties and types to PascalCase"
CONVENTIONS = {
    **dict.fromkeys(("python", "ruby", "rust", "elixir", "gdscript", "nim"), SNAKE),
    **dict.fromkeys(("javascript", "javascriptreact", "typescript", "typescriptreact"), CAMEL),
    **dict.fromkeys(("java", "kotlin", "scala", "swift", "dart", "php"), CAMEL),
    "csharp": PASCAL,
    "fsharp": PASCAL,
    "go": "names with underscores to camelCase, those that the package exports to PascalCase",
}
ECMASCRIPT = "const and let, arrow functions, template literals, async and await, destructuring, ?. and ??"
FEATURES = {
    "python": "f-strings, pathlib, list[int] and X | None in type hints, with for files, comprehensions",
    **dict.fromkeys(("javascript", "javascriptreact", "typescript", "typescriptreact"), ECMASCRIPT),
    "java": "var, records, switch expressions, text blocks, try with resources",
    "cpp": "auto, range-based for, nullptr, override, smart pointers, std::string",
    "csharp": "var, string interpolation, pattern matching, expression bodies, using declarations",
    "go": "any, errors.Is and errors.As, %w, the slices and maps packages",
    "rust": "the ? operator, let else, names in format strings",
    "php": "typed properties, match, ?->, ??, short arrays, constructor promotion",
}
RENAME = "everywhere in the code to edit, where they are not so yet. Don't change what the code does."
MODERNISE = "Replace outdated constructs by the current features of the language"

RECIPES = {
    "type-hints": Recipe(
        "Add type hints",
        "Add type hints to its function parameters and return values. Don't change what the code does.",
        languages=("python", "typescript", "typescriptreact", "php"),
    ),
    "docstring": Recipe(
        "Add documentation comments",
        "Add a short documentation comment to each function and class of the code to edit that has none, in the usual "
        "form for the language (in Python a docstring). Don't change the code itself.",
        other_languages=PROSE + DATA + MARKUP,
    ),
    "simplify": Recipe(
        "Simplify",
        "Make the code simpler and easier to read. It must do exactly what it does now, under the same names.",
        other_languages=PROSE + DATA,
    ),
    "comments": Recipe(
        "Add comments",
        "Add a short comment above each step that is not obvious, saying what it is for. Don't change the code itself.",
        other_languages=PROSE + NO_COMMENTS,
    ),
    "error-handling": Recipe(
        "Add error handling",
        "Add error handling for what can fail here: files, network, parsing, missing values. Do it in the usual way "
        "for the language, with clear messages. Where nothing fails, the code must do what it does now.",
        other_languages=PROSE + DATA + MARKUP,
    ),
    "logging": Recipe(
        "Add logging",
        "Add log messages where a step begins or fails, with the logger that the file has, else the usual one of the "
        "language. Log no passwords and no tokens. Don't change what the code does.",
        other_languages=PROSE + DATA + MARKUP,
    ),
    # Nothing but the range can change, so they can't go into a file of their own.
    "tests": Recipe(
        "Write tests below it",
        "Repeat the code as it is, and below it write unit tests for it in the usual test framework of the language: "
        "the normal case, the limits, wrong input.",
        other_languages=PROSE + DATA + MARKUP,
    ),
    "translate-comments": Recipe(
        "Translate comments to English",
        "Translate all comments and documentation comments to English. Don't change the code itself.",
        other_languages=PROSE + NO_COMMENTS,
    ),
    "naming": Recipe(
        "Use the usual naming convention",
        f"Rename variables, functions and classes to the usual naming convention of the language, {RENAME}",
        other_languages=PROSE + DATA + MARKUP,
        by_language={language: f"Rename {convention}, {RENAME}" for language, convention in CONVENTIONS.items()},
    ),
    "modernise": Recipe(
        "Modernise",
        f"{MODERNISE}. The code must do exactly what it does now.",
        other_languages=PROSE + DATA,
        by_language={
            language: f"{MODERNISE}, as there are {features}. The code must do exactly what it does now."
            for language, features in FEATURES.items()
        },
    ),
    "fix-diagnostic": Recipe("Fix the reported problem", "Fix the reported problems. Change nothing else."),
}
"""By id, in the order of menus."""
COMMON = ("type-hints", "docstring", "simplify")
"""Those that are on offer where nobody asked for a rewrite."""

PROJECT, USER = "project.", "user."
"""Begin the ids of recipes from files, so that none can pass for one of ours."""


def kind_of(recipe_id: str) -> str:
    """Whose recipe it is: project, user or builtin."""
    return next((prefix[:-1] for prefix in (PROJECT, USER) if recipe_id.startswith(prefix)), "builtin")


def listed(recipes: Mapping[str, Recipe], language_id: str) -> list[dict[str, Any]]:
    """The recipes for a language, as stet/recipes has them."""
    return [
        {"id": name, "title": recipe.title, "kind": kind_of(name)}
        for name, recipe in recipes.items()
        if recipe.suits(language_id)
    ]
