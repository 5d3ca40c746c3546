"""Which prompt? Real models on edits with tests: how many each layout passes, leaves unchanged, has refused.

Run by hand: python tests/bench_prompt.py edits/*.jsonl --check check_edit.py --model tiny --out answers.jsonl
check_edit.py has check(task, text) -> (True, False or None, message), which runs a task's own tests on an edited file.
Answers are kept in --out: a run that was stopped goes on where it stopped, task by task. Greedy.
"""

import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lsp_server.documents import Edit, Snapshot, common_prefix
from lsp_server.edits import apply_hunks
from lsp_server.engine_client import Event
from lsp_server.guards import BadAnswer
from lsp_server.prompts import HOLE, SYSTEM, Prompt, build_prompt, task_text
from lsp_server.scopes import Region, find_region, lines_region
from lsp_server.writing import Writing
from speculation import Engine
from speculation.config import EngineConfig

Task = dict[str, Any]
Messages = list[dict[str, str]]
BASELINE = "plain"
SHORT = "You edit code. Reply with the complete edited code in one fenced code block and nothing else."
RULES = (
    "You edit source code. You are given code and an instruction.\n"
    "1. Carry out the instruction. It always asks for a change: if it speaks of a bug, find the bug and fix it.\n"
    "2. Reply with the complete code after the change, from its first line to its last, in one fenced code block.\n"
    "3. Write nothing before the block and nothing after it.\n"
    "4. Never leave code out, and never put a comment in place of code.\n"
    "5. Keep everything else exactly as it is: names, comments, blank lines, indentation."
)
EXAMPLE = (
    "File: mean.py\n\nThe code to edit:\n```python\ndef mean(values):\n    return sum(values) / len(values)\n```\n\n"
    "Instruction: Handle an empty list by returning 0.0.\n\nReply with the edited code only, in one ```python block.",
    "```python\ndef mean(values):\n    if not values:\n        return 0.0\n    return sum(values) / len(values)\n```",
)
IDS = {"C++": "cpp", "C#": "csharp", "Shell": "shellscript", "Text": "plaintext"}
"""Languages of the tasks whose id in an editor is another than their name in small letters."""


def chat(system: str, *turns: str) -> Messages:
    """Messages: the system text, if any, then user and assistant in turn."""
    head = [{"role": "system", "content": system}] if system else []
    return head + [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(turns)]


def parts(prompt: Prompt) -> tuple[str, str, str]:
    """Of the prompt as it is: what comes before the instruction, the instruction, and what comes after it."""
    code, _, rest = prompt.messages[1]["content"].partition(f"Instruction: {prompt.task}\n\n")
    return code, prompt.task, rest


def plain(prompt: Prompt) -> Messages:
    """As somebody would ask who has nothing but a chat."""
    return chat("", f"{prompt.task}\n\n{prompt.prediction}")


def short(prompt: Prompt) -> Messages:
    return chat(SHORT, f"{prompt.prediction}\n\n{prompt.task}")


def named(prompt: Prompt) -> Messages:
    """With a line that names the language."""
    code, task, wanted = parts(prompt)
    return chat(SYSTEM, f"Language: {prompt.file_type}\n{code}Instruction: {task}\n\n{wanted}")


def instruction_first(prompt: Prompt) -> Messages:
    code, task, wanted = parts(prompt)
    return chat(SYSTEM, f"Instruction: {task}\n\n{code}{wanted}")


def alone(prompt: Prompt) -> Messages:
    """Without the file around the code to edit."""
    path, _, rest = prompt.messages[1]["content"].partition("\n\nThe rest of the file")
    code = rest.rpartition(f"The code to edit, which stands at {HOLE}")[2]
    return chat(SYSTEM, f"{path}\n\nThe code to edit{code}" if rest else path)


def twice(prompt: Prompt) -> Messages:
    code, task, wanted = parts(prompt)
    return chat(SYSTEM, f"Instruction: {task}\n\n{code}Once more the instruction: {task}\n\n{wanted}")


LAYOUTS: dict[str, Callable[[Prompt], Messages]] = {
    "now": lambda prompt: prompt.messages,
    BASELINE: plain,
    "short": short,
    "named": named,
    "rules": lambda prompt: chat(RULES, prompt.messages[1]["content"]),
    "example": lambda prompt: chat(SYSTEM, *EXAMPLE, prompt.messages[1]["content"]),
    "rules and example": lambda prompt: chat(RULES, *EXAMPLE, prompt.messages[1]["content"]),
    "instruction first": instruction_first,
    "twice": twice,
    "alone": alone,
}
"""What is asked, from the prompt as lsp_server.prompts makes it. "again" is that for an answer that changed nothing."""


def changed_block(task: Task) -> tuple[Snapshot, Region]:
    """The block around the first line that the task changes, as a cursor there would stand for it."""
    snapshot = whole_file(task)[0]
    at = common_prefix(task["before"], task["after"])
    return snapshot, find_region(snapshot, at, at)


def whole_file(task: Task) -> tuple[Snapshot, Region]:
    language = task["language"]
    snapshot = Snapshot(f"file:///{task['path']}", 0, task["before"], IDS.get(language, language.lower()))
    return snapshot, lines_region(snapshot, 0, len(snapshot.lines))


def is_enough(task: Task) -> bool:
    """Whether the block is a part of the file, and all that the task changes is in it."""
    before, after = task["before"], task["after"]
    region = changed_block(task)[1]
    is_part = before[: region.start].strip() or before[region.end :].strip()
    return bool(is_part) and after.startswith(before[: region.start]) and after.endswith(before[region.end :])


def make_prompt(task: Task, *, again: bool = False) -> Prompt:
    snapshot, region = changed_block(task) if task.get("block") else whole_file(task)
    words = task_text(task["instruction"], None, (), snapshot, again=again)
    return build_prompt(snapshot, region, words, task["path"])


def ask(engine: Engine, prompt: Prompt) -> dict[str, Any]:
    """The model's answer, as far as the server would read it."""
    text, n_tokens, reason = "", 0, None
    writing = Writing(prompt)
    for chunk in engine.generate(
        prompt.messages, source=prompt.prediction, file_type=prompt.file_type, max_new_tokens=prompt.max_tokens
    ):
        text, n_tokens = text + chunk.text, n_tokens + len(chunk.token_ids)
        reason = chunk.finish_reason or reason
        try:
            writing.take(Event("writing", chunk.text, len(chunk.token_ids)))
        except BadAnswer:
            break
    return {"text": text, "reason": reason, "tokens": n_tokens, "prompt_tokens": len(engine.encode(prompt.messages))}


def judge(task: Task, answer: dict[str, Any], check: Callable[[Task, str], tuple[bool | None, str]]) -> str:
    """ "passed", "failed", "unchanged", or "refused: " and why."""
    prompt = make_prompt(task)
    writing = Writing(prompt)
    try:
        writing.take(Event("writing", answer["text"], answer["tokens"]))
        writing.take(Event("end", finish_reason=answer["reason"] or "stop"))
    except BadAnswer as error:
        return f"refused: {error}"
    if not writing.hunks:
        return "unchanged"
    new = Edit(prompt.region.start, prompt.region.end, "".join(apply_hunks(prompt.form.lines, writing.hunks)))
    return "passed" if check(task, new.apply(task["before"]))[0] else "failed"


def table(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> Iterator[str]:
    """A line for each layout, over the tasks that all of them have answered."""
    by_task: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_task.setdefault(row["id"], {})[row["layout"]] = row
    common = [layouts for layouts in by_task.values() if set(names) <= set(layouts)]
    yield f"{len(common)} tasks"
    for name in names:
        mine = [layouts[name] for layouts in common]
        verdicts = [row["verdict"].partition(":")[0] for row in mine]
        counts = ", ".join(f"{kind} {verdicts.count(kind)}" for kind in ("passed", "failed", "unchanged", "refused"))
        means = ", ".join(f"{sum(row[key] for row in mine) / max(1, len(mine)):.0f} {key}" for key in SIZES)
        versus = ""
        if BASELINE in names:
            pairs = [(layouts[name]["verdict"], layouts[BASELINE]["verdict"]) for layouts in common]
            won = sum(ours == "passed" != theirs for ours, theirs in pairs)
            lost = sum(theirs == "passed" != ours for ours, theirs in pairs)
            versus = f"; against {BASELINE} +{won} -{lost}"
        yield f"{name}: {counts}; {means}{versus}"


SIZES = ("tokens", "prompt_tokens")


def load_check(path: Path) -> Callable[[Task, str], tuple[bool | None, str]]:
    """The function check of a Python file."""
    spec = importlib.util.spec_from_file_location("check_edit", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.check


def choose(files: Sequence[Path], limit: int, max_chars: int, *, block: bool) -> list[Task]:
    """Short tasks with tests, as many of each file as there is room for; block: those that change one block only."""
    per_file = []
    for file in files:
        tasks = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line.strip()]
        short = [task for task in tasks if task.get("tests") and len(task["before"] + task["after"]) <= max_chars]
        per_file.append([task | {"block": True} for task in short if is_enough(task)] if block else short)
    in_turn = [task for n in range(max(map(len, per_file))) for tasks in per_file for task in tasks[n : n + 1]]
    return in_turn[:limit]


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--check", "check_file", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Where the answers are kept.")
@click.option("--model", default="tiny", show_default=True)
@click.option("--layouts", default=",".join(LAYOUTS), show_default=True)
@click.option("--again", is_flag=True, help="Only tasks that `now` left unchanged, asked once more in firmer words.")
@click.option("--block", is_flag=True, help="Edit the block that changes, not the whole file.")
@click.option("--limit", default=40, show_default=True)
@click.option("--max-chars", default=1200, show_default=True, help="Of before and after together.")
def main(
    files: tuple[Path, ...],
    check_file: Path,
    out: Path,
    model: str,
    layouts: str,
    again: bool,
    block: bool,
    limit: int,
    max_chars: int,
) -> None:
    """Ask, judge, print the table."""
    check = load_check(check_file)
    names = ["again"] if again else layouts.split(",")
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()] if out.exists() else []
    done = {(row["id"], row["layout"]): row for row in rows}
    engine = Engine.open(EngineConfig(model=model, small_lm="none", database=None))
    with out.open("a", encoding="utf-8") as sink:
        for number, task in enumerate(choose(files, limit, max_chars, block=block), start=1):
            for name in names:
                before = done.get((task["id"], "now"))
                if (task["id"], name) in done or (again and (before is None or before["verdict"] != "unchanged")):
                    continue
                prompt = make_prompt(task, again=again)
                answer = ask(engine, prompt if again else replace(prompt, messages=LAYOUTS[name](prompt)))
                row = {"id": task["id"], "layout": name, **answer, "verdict": judge(task, answer, check)}
                rows.append(row)
                sink.write(json.dumps(row) + "\n")
                sink.flush()
            click.echo(f"task {number}: {task['id']}", err=True)
    click.echo("\n".join(table(rows, names)))


if __name__ == "__main__":
    main()
