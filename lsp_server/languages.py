"""Editors' language ids by file name, for files that come without an editor."""

from pathlib import Path

BY_SUFFIX = {
    "bash": "shellscript",
    "c": "c",
    "cc": "cpp",
    "clj": "clojure",
    "cpp": "cpp",
    "cs": "csharp",
    "css": "css",
    "dart": "dart",
    "el": "lisp",
    "erl": "erlang",
    "ex": "elixir",
    "exs": "elixir",
    "go": "go",
    "h": "c",
    "hpp": "cpp",
    "hs": "haskell",
    "html": "html",
    "java": "java",
    "jl": "julia",
    "js": "javascript",
    "json": "json",
    "jsx": "javascriptreact",
    "kt": "kotlin",
    "lisp": "lisp",
    "lua": "lua",
    "m": "objective-c",
    "md": "markdown",
    "mjs": "javascript",
    "ml": "ocaml",
    "nim": "nim",
    "php": "php",
    "pl": "perl",
    "py": "python",
    "pyi": "python",
    "r": "r",
    "rb": "ruby",
    "rs": "rust",
    "scala": "scala",
    "scss": "scss",
    "sh": "shellscript",
    "sql": "sql",
    "swift": "swift",
    "tex": "latex",
    "toml": "toml",
    "ts": "typescript",
    "tsx": "typescriptreact",
    "vim": "vim",
    "xml": "xml",
    "yaml": "yaml",
    "yml": "yaml",
    "zig": "zig",
}
BY_NAME = {"makefile": "makefile", "dockerfile": "dockerfile", "cmakelists.txt": "cmake"}


def language_of(file: Path) -> str:
    """The language id of a file; "plaintext" if its name says nothing."""
    name = file.name.lower()
    return BY_NAME.get(name) or BY_SUFFIX.get(file.suffix.lower().removeprefix("."), "plaintext")
