"""An answer that leaves code out, or never ends, is stopped while it is written; whatever is legitimate passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents import Snapshot
from lsp_server.engine_client import Event
from lsp_server.guards import BadAnswer
from lsp_server.placeholders import is_placeholder
from lsp_server.prompts import build_prompt
from lsp_server.scopes import lines_region
from lsp_server.writing import Writing

CODE = "def f(x):\n    return x\n"


def answer(text: str, source: str = CODE, task: str = "Do it.", finish_reason: str = "stop") -> Writing:
    """An answer that streams in small pieces; its own fences are in text."""
    snapshot = Snapshot("file:///a.py", 1, source, "python")
    writing = Writing(build_prompt(snapshot, lines_region(snapshot, 0, len(snapshot.lines)), task, "a.py"))
    for at in range(0, len(text), 40):
        writing.take(Event("writing", text[at : at + 40]))
    writing.take(Event("end", finish_reason=finish_reason))
    return writing


def stopped_after(text: str, match: str, source: str = CODE) -> int:
    """How many characters of an answer without an end are read before it is stopped."""
    snapshot = Snapshot("file:///a.py", 1, source, "python")
    writing = Writing(build_prompt(snapshot, lines_region(snapshot, 0, len(snapshot.lines)), "x", "a.py"))
    with pytest.raises(BadAnswer, match=match):
        for at in range(0, len(text), 10):
            writing.take(Event("writing", text[at : at + 10]))
    return at + 10


PLACEHOLDERS = """\
# ... rest of the code
# ... (remaining methods unchanged)
# ... rest of code ...
# ...
// ...
// …
/* ... */
{/* ... existing JSX ... */}
<!-- ... existing content ... -->
<!-- rest of the page -->
-- ... rest of the query unchanged
; ... rest of the function
% rest of the file
... rest of code
... existing code ...
[...]
[rest of the file]
(rest of the code remains unchanged)
// ... existing code ...
// existing code here
// existing code
# keep the existing code
// Keep existing implementation
# rest of the function remains the same
# Rest of your code here
# The rest of the class stays the same.
// the rest is the same
# remaining methods unchanged
# other methods here
# Other functions remain unchanged
# unchanged
// (unchanged)
// same as before
# Same implementation as before
# everything else stays the same
# no changes here
// No changes below
# code omitted
# (omitted for brevity)
// implementation omitted
/* styles omitted for brevity */
# snip
# --- snip ---
# ... other handlers ...
// ... your code ...
# ... implementation here ...
// ... and so on
// ... and the rest
// Add the rest of your code here
# Insert the rest of the file here
# code continues as before
    pass  # ... rest of the function
foo();  // ... existing code
# Rest des Codes bleibt gleich
# ... unverändert
# Restlicher Code
// reste du code
// resto del código
// ... sin cambios
# остальной код без изменений
// 其余代码保持不变
// ... 省略 ...
# 残りのコード
// 나머지 코드
"""
LEGITIMATE = """\
print('the rest of it')
x = ...
def f(*args): ...
...
# TODO: implement
# TODO: implementation here
# implementation here
# your code here
raise NotImplementedError
const { a, ...rest } = props;
...rest,
...rest
  ...existing,
return { ...previous, x: 1 };
fn(...other)
[remaining]
["pdf"] = "[PDF file omitted]",
(the rest of code) = x
(existing)
# The rest of the arguments are passed on.
# Handles the rest of the file after its header.
# the remaining items, sorted
# Other imports
# Original order matters here: see below.
# The order of the items remains unchanged by this.
# ... and then it is sorted
# (see above)
# (optional)
# Same as above, but for files.
# wait...
# loading...
message = "Loading ..."
print("... loading more")
"the rest of the code"
# No changes, so there is nothing to write.
# -------
# .........................
# Unchanged lines are not written.
# Skip existing files.
// Keep the original value.
/* other */
# other methods of payment
# the same
# previous value
* the first point
--verbose
/// Returns the rest of the line.
# restore the code point
# Existing users keep their code
die Liste bleibt
"""


@pytest.mark.parametrize("line", PLACEHOLDERS.splitlines())
def test_what_stands_for_code_is_a_placeholder(line: str) -> None:
    assert is_placeholder(line)
    assert is_placeholder(f"    {line}  ")


@pytest.mark.parametrize("line", LEGITIMATE.splitlines())
def test_what_is_code_or_a_comment_on_it_is_none(line: str) -> None:
    assert not is_placeholder(line)
    assert not is_placeholder(f"\t{line}")


@given(st.text(max_size=60))
def test_any_line_can_be_judged(line: str) -> None:
    is_placeholder(line)


def test_a_placeholder_stops_the_answer_when_its_line_is_complete() -> None:
    text = "```\ndef f(x):\n    # ... rest of the code\n" + "    y = 1\n" * 1000
    assert stopped_after(text, r"left code out \(it wrote '# \.\.\. rest of the code'\)") <= 60


@pytest.mark.parametrize("source", ["# ... rest of the code\nx\n", "x\n    # ... rest of the code\n"])
def test_the_users_own_words_are_no_placeholder(source: str) -> None:
    assert not answer("```\n# ... rest of the code\nx\n```", source).warnings


def test_a_placeholder_that_the_user_asks_for_is_none() -> None:
    answer(f"```\n{CODE}# ... rest of the code\n```", task="Write `# ... rest of the code` at the end.")


LOOPS = {
    "line": "    x = 1\n",
    "block": "def f():\n    pass\n\n\n",
    "long block": "".join(f"line_{n} = {n}\n" for n in range(40)),
    "block with a line in it that comes often": "a\n}\nb\n}\nc\n}\nd\n}\n",
    "blank lines": "\n",
    "thoughts": "Wait, no.\n",
}


@pytest.mark.parametrize("block", LOOPS.values(), ids=LOOPS.keys())
@pytest.mark.parametrize("start", ["```\ndef f(x):\n", "", "<think>\n"])
def test_a_loop_is_stopped(block: str, start: str) -> None:
    n_chars = stopped_after(start + block * 2000, "repeated itself and was stopped: it wrote '")
    assert n_chars <= len(start) + max(40 * len(block), 150) and n_chars < 6000


@pytest.mark.parametrize("piece", ["x", "0, ", "the end of the end of ", "'a': [1, 2, 3], "])
def test_a_line_without_an_end_is_stopped(piece: str) -> None:
    assert stopped_after("```\n" + piece * 5000, "a line without an end") < 3000


def test_a_line_without_an_end_is_stopped_after_a_long_one() -> None:
    long = f"x = '{''.join(map(str, range(900)))}'\n"
    assert stopped_after(f"```\n{long}" + "x" * 5000, "a line without an end") < len(long) + 2300


def test_a_line_that_only_grows_is_stopped() -> None:
    assert stopped_after("```\n" + "".join(f"{n} " for n in range(9000)), "a line without an end") < 6000


def test_a_loop_in_a_file_full_of_the_same_ends_too() -> None:
    assert stopped_after("```\n" + "0, 0,\n" * 3000, "repeated itself", "0, 0,\n" * 500) < 1200 * len("0, 0,\n")


TABLE = "".join(f"| {n} | 0 | 0 |\n" for n in range(300))
SAME = {
    "table": TABLE,
    "zeros": "0, 0, 0, 0,\n" * 400,
    "pairs": "a\nb\n" * 300,
    "blank lines": "a\n" + "\n" * 120 + "b\n",
    "long blocks": ("".join(f"x{n}\n" for n in range(30)) + "\n") * 12,
    "minified": "var a=1;" * 4000 + "\n",
    "one long line": "".join(f"f{n}();" for n in range(3000)) + "\n",
    "spaces": "x = 1" + " " * 3000 + "# far out\n",
}


@pytest.mark.parametrize("source", SAME.values(), ids=SAME.keys())
def test_what_the_file_is_full_of_may_be_copied(source: str) -> None:
    assert answer(f"```\n{source}```", source).hunks == []
    assert answer(f"```\n{source}new\n```", source).hunks


NEW = {
    "table": TABLE,
    "like lines": "".join(f"    assert f({n}) == {n}\n" for n in range(200)),
    "zeros": "[0, 0, 0, 0, 0, 0, 0, 0],\n" * 24,
    "brackets": "[" * 20 + "\n" + "]\n" * 20,
    "like blocks": "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(100)),
    "blocks twice": "".join(f"x{n}\n" for n in range(50)) * 2,
    "a long string": f"x = '{''.join(map(str, range(600)))}'\n",
    "a ruler": "#" * 400 + "\n",
}


@pytest.mark.parametrize("text", NEW.values(), ids=NEW.keys())
def test_legitimate_repetition_is_no_loop(text: str) -> None:
    answer(f"```\n{CODE}{text}```")


@pytest.mark.parametrize(
    ("text", "finish_reason", "match"),
    [
        (f"```\n{CODE}", "length", "didn't come to an end"),
        ("<think>\n", "length", "didn't come to an end"),
        ("```\n```\n", "stop", "no code at all; to delete lines, delete them"),
        ("```\n\n\n```\n", "stop", "no code at all"),
    ],
)
def test_an_answer_without_an_end_or_without_code_is_refused(text: str, finish_reason: str, match: str) -> None:
    with pytest.raises(BadAnswer, match=match):
        answer(text, task="Delete everything.", finish_reason=finish_reason)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (CODE, f"```\n{CODE}```"),
        (CODE, "No changes are needed."),
        (CODE, "```\ndef f(x):   \n    return x\t\n```"),
        ("a  \n\nb \n", "```\na\n   \nb\n```"),
        ("a\n\nb\n", "a\n\nb\n"),
    ],
)
def test_an_answer_that_changes_nothing_but_blanks_changes_nothing(source: str, text: str) -> None:
    writing = answer(text, source)
    assert (writing.hunks, writing.warnings) == ([], [])


def test_blanks_at_the_ends_of_lines_left_alone_stay() -> None:
    writing = answer("```\na\nB\nc\n```", "a  \nb  \nc\n")
    assert [(hunk.first, hunk.last, hunk.new_lines) for hunk in writing.hunks] == [(1, 2, ("B\n",))]
    writing = answer("```\na\nb\n```", "a  \nb\n", task="Remove trailing whitespace.")
    assert [hunk.new_lines for hunk in writing.hunks] == [("a\n",)]
