"""`stet rewrite`, as a user runs it, with a scripted engine."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from stub_engine import StubEngine, running

from lsp_server.compare import comparison
from lsp_server.prompts import AGAIN, AGAIN_TEMPERATURE

CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
DIFF = """\
--- a/a.py
+++ b/a.py
@@ -2,5 +2,5 @@
     return 1
 
 
-def two():
+def two() -> int:
     return 2
"""


@dataclass
class Done:
    """How a run of stet ended."""

    code: int
    out: bytes
    err: str


@dataclass
class Cli:
    """A folder, an engine, and `stet rewrite` between them."""

    folder: Path
    engine: StubEngine
    runtime: str

    def file(self, content: str | bytes, name: str = "a.py") -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "lsp_server.cli", "rewrite", *arguments),
            cwd=self.folder,
            env={**os.environ, "STET_RUNTIME_DIR": self.runtime},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A test run that a shell put into the background hands down a SIGINT that is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    async def run(self, *arguments: str) -> Done:
        process = await self.start(*arguments)
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode is not None
        return Done(process.returncode, out, err.decode())


@pytest.fixture
async def cli(tmp_path: Path) -> AsyncIterator[Cli]:
    with tempfile.TemporaryDirectory(prefix="stet", dir="/tmp") as runtime:
        async with running(Path(runtime)) as engine:
            yield Cli(tmp_path, engine, runtime)


async def test_the_change_is_printed_as_a_diff_and_the_file_stays(cli: Cli) -> None:
    file = cli.file(CODE)
    cli.engine.answer(CODE.replace("two():", "two() -> int:"))
    done = await cli.run("a.py", "Add a return type to two.")
    assert (done.code, done.out.decode()) == (0, DIFF)
    assert done.err.startswith("1 hunk, 8 tokens, 100% copied, 3 passes, 16.0 tokens/s, ")
    assert file.read_text() == CODE
    (asked,) = cli.engine.requests
    assert "Instruction: Add a return type to two." in asked["messages"][1]["content"]
    assert asked["stet"] == {"file_type": "python", "draft": True}


async def test_an_absolute_path_has_no_second_slash_in_the_diff(cli: Cli) -> None:
    file = cli.file(CODE)
    cli.engine.answer(CODE.replace("two():", "two() -> int:"))
    done = await cli.run(str(file), "x")
    assert done.out.decode().splitlines()[:2] == [f"--- a{file.as_posix()}", f"+++ b{file.as_posix()}"]


async def test_write_writes_though_nobody_reads_the_diff(cli: Cli) -> None:
    file = cli.file(CODE)
    new = CODE.replace("two():", "two() -> int:")
    for arguments in (["--write"], ["--write", "--json"]):
        file.write_text(CODE)
        cli.engine.answer(new)
        with open("/dev/full", "wb") as full:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "lsp_server.cli", "rewrite", "a.py", "x", *arguments),
                cwd=cli.folder,
                env={**os.environ, "STET_RUNTIME_DIR": cli.runtime},
                stdout=full,
                stderr=subprocess.PIPE,
            )
            _, err = await asyncio.wait_for(process.communicate(), 60)
        assert (process.returncode, err.decode()) == (
            1,
            "stet: error: can't write the output: No space left on device\n",
        )
        assert file.read_text() == new


async def test_a_read_only_file_is_not_replaced(cli: Cli) -> None:
    file = cli.file(CODE)
    file.chmod(0o444)
    cli.engine.answer(CODE.replace("two():", "two() -> int:"))
    done = await cli.run("a.py", "x", "--write")
    assert done.code == 1
    assert "a.py is read-only" in done.err
    assert file.read_text() == CODE


async def test_a_hard_link_stays_one_file(cli: Cli) -> None:
    file = cli.file(CODE)
    other = cli.folder / "b.py"
    other.hardlink_to(file)
    cli.engine.answer(CODE.replace("two():", "two() -> int:"))
    assert (await cli.run("a.py", "x", "--write")).code == 0
    assert other.read_text() == file.read_text() != CODE


async def test_a_name_with_a_space_ends_with_a_tab_in_the_diff(cli: Cli) -> None:
    cli.file(CODE, "my file.py")
    cli.engine.answer(CODE.replace("two():", "two() -> int:"))
    done = await cli.run("my file.py", "x")
    assert done.out.decode().splitlines()[:2] == ["--- a/my file.py\t", "+++ b/my file.py\t"]


@pytest.mark.parametrize("arguments", [["--temperature", "nan"], ["--model", ""], ["--model", " "]])
async def test_options_that_mean_nothing_are_refused(cli: Cli, arguments: list[str]) -> None:
    cli.file(CODE)
    done = await cli.run("a.py", "x", *arguments)
    assert done.code == 2
    assert arguments[0] in done.err
    assert "Traceback" not in done.err


async def test_compare_asks_again_without_drafts_and_shows_both(cli: Cli) -> None:
    file = cli.file(CODE)
    cli.engine.answer(CODE.replace("two():", "two() -> int:"))
    done = await cli.run("a.py", "x", "--compare", "--write")
    assert (done.code, done.out.decode()) == (0, DIFF)
    assert [asked["stet"]["draft"] for asked in cli.engine.requests] == [True, False]
    assert "output identical: yes" in done.err
    assert all(name in done.err for name in ("target passes", "tokens per pass", "copied share", "tokens/s", "Stet"))
    assert "-> int" in file.read_text()


def test_compare_says_when_the_output_differs() -> None:
    figures = {"tokens": 8, "passes": 2, "copiedShare": 1.0, "tokensPerSecond": 8.0, "decodeSeconds": 1.0}
    console = Console(record=True, width=80)
    console.print(comparison(figures, {**figures, "passes": 8, "decodeSeconds": 4.0}, False))
    text = console.export_text()
    assert "output identical: no" in text
    assert "4.0x" in text


async def test_only_the_chosen_lines_are_rewritten(cli: Cli) -> None:
    cli.file(CODE)
    cli.engine.answer("def two() -> int:\n    return 2\n")
    done = await cli.run("a.py", "x", "--lines", "5:6", "--no-draft", "--temperature", "0.5", "--seed", "3")
    assert done.out.decode() == DIFF
    (asked,) = cli.engine.requests
    assert asked["prediction"]["content"] == "```python\ndef two():\n    return 2\n```"
    assert (asked["temperature"], asked["seed"], asked["stet"]["draft"]) == (0.5, 3, False)


async def test_json_holds_diff_text_and_figures(cli: Cli) -> None:
    cli.file(CODE)
    new = CODE.replace("two():", "two() -> int:")
    cli.engine.answer(new)
    said = json.loads((await cli.run("a.py", "x", "--json")).out)
    assert (said["diff"], said["new_text"]) == (DIFF, new)
    assert (said["stats"]["tokens"], said["stats"]["passes"], said["stats"]["copiedShare"]) == (8, 3, 1)


async def test_hunks_are_printed_when_they_are_final(cli: Cli) -> None:
    text = "".join(f"line_{n} = {n}\n" for n in range(60))
    cli.file(text)
    cli.engine.answer(text.replace("line_3 = 3\n", "line_3 = 0\n"))
    cli.engine.hold_at = 40
    process = await cli.start("a.py", "x")
    assert process.stdout is not None
    early = await asyncio.wait_for(process.stdout.readuntil(b"+line_3 = 0\n"), 60)
    assert b"-line_3 = 3\n" in early and not cli.engine.gate.is_set()
    cli.engine.gate.set()
    await process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("content", "answer", "expected"),
    [
        ("a = 1\r\nb = 2\r\n", "a = 1\nb = 3\n", "a = 1\r\nb = 3\r\n"),
        ("\ufeffa = 1\nb = 2", "a = 2\nb = 2\n", "\ufeffa = 2\nb = 2"),
        ("é = '😀'\f\n\tb\n", "é = '😀😀'\f\n\tb\n", "é = '😀😀'\f\n\tb\n"),
    ],
)
async def test_write_keeps_mode_line_ends_and_bom(cli: Cli, content: str, answer: str, expected: str) -> None:
    file = cli.file(content)
    file.chmod(0o754)
    link = cli.folder / "link.py"
    link.symlink_to(file)
    cli.engine.answer(answer)
    assert (await cli.run("link.py", "x", "--write")).code == 0
    assert file.read_bytes() == expected.encode()
    assert file.stat().st_mode & 0o777 == 0o754
    assert link.is_symlink()
    assert sorted(path.name for path in cli.folder.iterdir()) == ["a.py", "link.py"]


async def test_nothing_to_change_is_said_and_may_be_tried_again(cli: Cli) -> None:
    cli.file(CODE)
    cli.engine.answer(CODE)
    done = await cli.run("a.py", "x", "--write")
    assert (done.code, done.out) == (0, b"")
    assert done.err.startswith("nothing to change (--again tries once more), ")
    await cli.run("a.py", "x", "--again", "--seed", "3")
    first, second = cli.engine.requests
    assert AGAIN in second["messages"][-1]["content"] and AGAIN not in first["messages"][-1]["content"]
    assert (first["temperature"], second["temperature"], second["seed"]) == (0, AGAIN_TEMPERATURE, 3)


async def test_a_file_that_somebody_else_changed_is_not_overwritten(cli: Cli) -> None:
    file = cli.file(CODE)
    cli.engine.answer(CODE.replace("1", "3"))
    cli.engine.hold_at = 2
    process = await cli.start("a.py", "x", "--write")
    await asyncio.wait_for(cli.engine.holding.wait(), 60)
    file.write_text("mine\n")
    cli.engine.gate.set()
    _, err = await process.communicate()
    assert process.returncode == 1
    assert b"a.py was changed by somebody else" in err
    assert file.read_text() == "mine\n"


@pytest.mark.parametrize(
    ("arguments", "code", "match"),
    [
        (["none.py", "x"], 1, "there is no file none.py"),
        ([".", "x"], 1, ". is a directory"),
        (["binary", "x"], 1, "binary is a binary file"),
        (["latin", "x"], 1, "latin is not UTF-8"),
        (["empty", "x"], 1, "empty is empty; there is nothing to rewrite"),
        (["blank", "x"], 1, "blank is empty"),
        (["a.py", " "], 1, "the instruction is empty"),
        (["a.py", "x", "--lines", "5:99"], 1, "--lines 5:99 is out of range: a.py has the lines 1:6"),
        (["a.py", "x", "--lines", "0:2"], 1, "out of range"),
        (["a.py", "x", "--lines", "3:2"], 1, "--lines 3:2 ends before it begins"),
        (["a.py", "x", "--lines", "3:4"], 1, "lines 3:4 of a.py are blank"),
        (["a.py", "x", "--lines", "a:b"], 2, "'a:b' is no range of lines"),
        (["a.py", "x", "--temperature", "-1"], 2, "--temperature"),
        (["a.py"], 2, "INSTRUCTION"),
        (["a.py", "x", "--model", "large"], 1, "already running with stub/model"),
    ],
)
async def test_bad_input_is_one_line(cli: Cli, arguments: list[str], code: int, match: str) -> None:
    for name, content in (("a.py", CODE), ("empty", ""), ("blank", " \n\n"), ("binary", "a\0b"), ("latin", b"\xe9")):
        cli.file(content, name)
    done = await cli.run(*arguments)
    assert done.code == code
    assert match in done.err
    assert "Traceback" not in done.err and not cli.engine.requests
    if code == 1:
        assert done.err.startswith("stet: error: ") and done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("code", "message"),
    [("context_length_exceeded", "9000 tokens don't fit into 4096"), ("model_error", "no model of that name")],
)
async def test_the_engines_refusal_is_passed_on(cli: Cli, code: str, message: str) -> None:
    cli.file(CODE)
    cli.engine.refusal = (400, code, message)
    done = await cli.run("a.py", "x")
    assert (done.code, done.out, done.err) == (1, b"", f"stet: error: {message}\n")


async def test_an_engine_that_dies_or_runs_away_leaves_the_file_alone(cli: Cli) -> None:
    file = cli.file(CODE)
    cli.engine.answer(CODE.replace("1", "3"))
    cli.engine.die_at = 2
    done = await cli.run("a.py", "x", "--write")
    assert (done.code, "the engine stopped in mid-rewrite" in done.err) == (1, True)
    cli.engine.die_at, cli.engine.finish_reason = None, "length"
    done = await cli.run("a.py", "x", "--write")
    assert (done.code, "didn't come to an end" in done.err) == (1, True)
    assert file.read_text() == CODE


async def test_ctrl_c_stops_the_engine_and_ends_with_130(cli: Cli) -> None:
    cli.file(CODE)
    cli.engine.answer(CODE)
    cli.engine.hold_at = 2
    process = await cli.start("a.py", "x", "--write")
    await asyncio.wait_for(cli.engine.holding.wait(), 60)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, err) == (130, b"stet: stopped; nothing was changed\n")
    await asyncio.wait_for(cli.engine.closed_early.wait(), 20)


async def test_what_the_project_says_is_in_the_prompt_and_told(cli: Cli) -> None:
    cli.file(CODE)
    (cli.folder / "AGENTS.md").write_text("Never use os.path.\n")
    (cli.folder / ".stet.toml").write_text('model = "large"')
    cli.engine.answer(CODE)
    done = await cli.run("a.py", "x", "--json")
    assert json.loads(done.out)["context"][0]["path"] == "AGENTS.md"
    problem, context, _ = done.err.splitlines()
    assert problem.startswith("stet: .stet.toml can't set model")
    assert context == "stet: context: AGENTS.md (instructions, 18 characters)"
    done = await cli.run("a.py", "x", "--no-project-files")
    assert done.err.startswith("nothing to change")
    said, unsaid = (request["messages"][0]["content"] for request in cli.engine.requests)
    assert said == f"{unsaid}\n\nRules of the project that the code belongs to:\nNever use os.path."


async def test_what_troubles_the_engine_is_told(cli: Cli) -> None:
    cli.file(CODE)
    cli.engine.answer(CODE)
    cli.engine.trouble = "the database was set aside"
    done = await cli.run("a.py", "x")
    assert done.err.splitlines()[0] == "stet: the database was set aside"
