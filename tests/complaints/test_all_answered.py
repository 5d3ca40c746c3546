"""Each of the 80 complaints has a test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent


def answered() -> Iterator[int]:
    """The numbers that stand over tests."""
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.complaint":
                        number, origin = (ast.literal_eval(argument) for argument in mark.args)
                        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", origin), origin
                        yield number


def test_every_complaint_has_a_test() -> None:
    assert set(answered()) == set(range(1, 81))
