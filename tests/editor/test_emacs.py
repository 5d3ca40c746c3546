"""Emacs with Eglot, and nothing of ours but the configuration in docs/editors.md: code action, confirm, edit, undo."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from code_server import missing
from workshop import BIN, PacedEngine, Workshop

pytestmark = pytest.mark.editor

HERE = Path(__file__).parent
SNIPPETS = re.findall(r"```elisp\n(.*?)```", (HERE.parents[1] / "docs/editors.md").read_text("utf-8"), flags=re.S)
CODE = "from math import pi\n\n\ndef area(x):\n    # The area of a circle.\n    y = x * x\n    return y * pi  # 😀\n"
RECIPE = '[recipes.rename]\ntitle = "Rename y"\ninstruction = "s/y/radius2/"\n'


@pytest.mark.parametrize("config", [SNIPPETS[:1], SNIPPETS[:2]], ids=["the server alone", "with what makes it handy"])
def test_a_code_action_and_an_instruction_edit_the_buffer(
    config: list[str], workshop: Workshop, engine: PacedEngine
) -> None:
    if not shutil.which("emacs"):
        missing("the Emacs tests need emacs-nox and elpa-eglot: run .ci/install-emacs")
    file, folder = workshop.folder / "a.py", workshop.folder
    file.write_text(CODE)
    (folder / ".stet.toml").write_text(RECIPE)
    (folder / "config.el").write_text("\n".join(config))
    command = ["emacs", "--batch", "-l", str(HERE / "eglot.el"), str(folder / "config.el"), str(file), engine.url]
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    renamed = re.sub(r"\by\b", "radius2", CODE)
    sided = re.sub(r"\bx\b", "side", CODE)
    assert json.loads(done.stdout) == [renamed, CODE, sided][: 2 + ("defun stet" in "".join(config))]
    assert done.stderr.count("asked: [eglot] Server wants to edit") == len(json.loads(done.stdout)) - 1
    assert "Server reports" not in done.stderr, "no message of an error"
