"""The same promises with nothing in between: a real Neovim, the real server, a real engine and the real 0.5B model."""

import os
import re
import signal
from collections.abc import Iterator

import pytest
from workshop import Editor, Workshop, wait_for

pytestmark = [pytest.mark.editor, pytest.mark.model]

LOAD_S = 240.0
"""Loading and a first rewrite, on a slow machine that has other things to do."""

HEAD = """\
import math


"""
MEAN = """\
def mean(values):
    x = 0
    for value in values:
        x = x + value
    return x / len(values)
"""
TAIL = """\


def area(radius):
    return math.pi * radius * radius
"""
CODE = HEAD + MEAN + TAIL
LONG = "\n\n".join(f"def step_{n}(x):\n    y = x + {n}\n    z = y * x\n    return z - y\n" for n in range(1, 16))


@pytest.fixture
def editor(shared_workshop: Workshop) -> Iterator[Editor]:
    editor = shared_workshop.open(CODE, {"model": "tiny"}, options={"auto_accept": True})
    yield editor
    shared_workshop.close(editor)


def rewrite_and_undo(editor: Editor) -> None:
    """A rewrite by the model: the change is in its range and nowhere else, and one undo takes it back."""
    editor.type(":4,8Stet Rename the function to average.<CR>")
    try:
        wait_for(lambda: "def average(" in editor.text(), "the rewrite", LOAD_S)
    except AssertionError:
        pytest.fail(f"{editor.messages()}\n{editor.text()}")
    text = editor.text()
    assert text.startswith(HEAD)
    assert text.endswith(TAIL)
    wait_for(lambda: editor.marks() == 0, "the preview to go")
    editor.type("u")
    assert editor.text() == CODE


def start_long_rewrite(editor: Editor) -> None:
    """Replace the text by LONG, have it rewritten, and return while the model is writing."""
    editor.lua("vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.split(..., '\\n'))", LONG.removesuffix("\n"))
    editor.type(":%Stet Rename y to total and z to product.<CR>")
    wait_for(lambda: re.match(r"\d+ tokens", editor.lua("return require('stet').status()")), "the first words", LOAD_S)
    assert editor.marks() > 0
    assert editor.text() == LONG


def test_a_rewrite_and_one_undo(editor: Editor) -> None:
    rewrite_and_undo(editor)


def test_cancel_leaves_the_buffer_alone_and_the_engine_idle(editor: Editor, shared_workshop: Workshop) -> None:
    start_long_rewrite(editor)
    assert shared_workshop.engine().n_active == 1
    editor.type(":StetCancel<CR>")
    assert editor.marks() == 0
    wait_for(lambda: shared_workshop.engine().n_active == 0, "the engine to be idle")
    # A pass under way ends; that the rewrite didn't run to its end, only the engine can say.
    wait_for(lambda: " cancelled: " in shared_workshop.engine_log().splitlines()[-1], "the engine's last word")
    assert editor.text() == LONG


def test_a_killed_engine_is_said_in_one_line_and_the_next_rewrite_works(
    editor: Editor, shared_workshop: Workshop
) -> None:
    start_long_rewrite(editor)
    os.kill(shared_workshop.engine().pid, signal.SIGKILL)
    wait_for(lambda: editor.marks() == 0, "the preview to go")
    assert editor.text() == LONG
    assert len(editor.messages()) == 1
    editor.lua("vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.split(..., '\\n'))", CODE.removesuffix("\n"))
    rewrite_and_undo(editor)
