"""Several versions of one rewrite: another try, a refinement, from one to the next; and the same again elsewhere."""

import re

import pytest
from workshop import Editor, wait_for

pytestmark = pytest.mark.editor

CODE = "".join(f"def f{n}(y):\n    # Number {n}.\n    return y\n\n\n" for n in range(3))


@pytest.fixture
def editor(shared_editor: Editor) -> Editor:
    return shared_editor.renew(CODE)


def renamed(text: str, new: str) -> str:
    return re.sub(r"\by\b", new, text)


def first(editor: Editor) -> str:
    """What the first line is to become, as it is shown now."""
    found = re.search(r"def f0\((?!y\))(\w+)\)", editor.screen())
    return found[1] if found else ""


def propose(editor: Editor, how: str = "variously ") -> None:
    editor.type(f":%Stet {how}s/y/radius/<CR>")
    editor.wait_for_preview("change 1/6")


def again(editor: Editor, version: str) -> str:
    """Ask for another version; its name for y."""
    editor.type(":StetAgain<CR>")
    editor.wait_for_preview(f"change 1/6 of version {version}:")
    return first(editor)


def test_another_version_stands_beside_the_first_and_one_is_chosen(editor: Editor) -> None:
    propose(editor)
    a = first(editor)
    b = again(editor, "2/2")
    c = again(editor, "3/3")
    assert len({a, b, c}) == 3
    seen = []
    for _ in range(4):
        editor.type("]v")
        seen.append(first(editor))
    assert seen == [a, b, c, a]
    editor.type("]v")
    assert "of version 2/3" in editor.screen()
    editor.type("dO")
    editor.wait_for_text(renamed(CODE, b))
    wait_for(lambda: editor.marks() == 0, "all versions to go")
    assert editor.messages() == []
    editor.type("u")
    assert editor.text() == CODE


def test_a_fourth_version_takes_the_place_of_the_first(editor: Editor) -> None:
    propose(editor)
    a = first(editor)
    names = [again(editor, version) for version in ("2/2", "3/3")]
    editor.type(":StetAgain<CR>")
    wait_for(lambda: first(editor) not in ("", a, *names) and "of version 3/3" in editor.screen(), "the fourth version")
    names.append(first(editor))
    seen = []
    for _ in range(3):
        editor.type("]v")
        seen.append(first(editor))
    assert seen == names
    assert editor.messages() == []


def test_a_version_is_rejected_alone_or_with_all(editor: Editor) -> None:
    propose(editor)
    a = first(editor)
    again(editor, "2/2")
    editor.type("dP")
    assert first(editor) == a and "of version" not in editor.screen()
    again(editor, "2/2")
    editor.type(":StetReject!<CR>")
    assert (editor.text(), editor.marks()) == (CODE, 0)


def test_a_part_of_one_version_ends_the_others(editor: Editor) -> None:
    propose(editor)
    b = again(editor, "2/2")
    editor.type("ggdo")
    editor.wait_for_text(CODE.replace("f0(y)", f"f0({b})"))
    wait_for(
        lambda: "change 1/5" in editor.screen() and "of version" not in editor.screen(), "the rest of this version"
    )
    editor.type(":StetVersion<CR>")
    editor.wait_for_message("no other version here")


def test_a_cancelled_version_leaves_the_others(editor: Editor) -> None:
    propose(editor, "slowly variously ")
    a = first(editor)
    editor.type(":StetAgain<CR>")
    editor.wait_for_preview("version 2/2")
    editor.type("<Esc>")
    wait_for(lambda: first(editor) == a and "change 1/6" in editor.screen(), "the first version")
    assert "of version" not in editor.screen()
    editor.type("dO")
    editor.wait_for_text(renamed(CODE, a))


def test_a_version_that_says_the_same_is_none(editor: Editor) -> None:
    propose(editor, "")
    editor.type(":StetAgain<CR>")
    editor.wait_for_message("no other version: it came out unchanged")
    assert first(editor) == "radius" and "of version" not in editor.screen()


def test_a_proposal_is_refined_by_more_words(editor: Editor) -> None:
    propose(editor, "")
    editor.type(":StetRefine s/radius/r/ s/Number/No/<CR>")
    editor.wait_for_preview("of version 2/2")
    assert first(editor) == "r"
    editor.type("]v")
    assert first(editor) == "radius"
    editor.nvim.input(":StetRefine<CR>")
    wait_for(lambda: "now also:" in editor.screen(), "the prompt")
    editor.type("s/radius/rr/<CR>")
    editor.wait_for_preview("of version 3/3")
    assert first(editor) == "rr"
    editor.type("]v]v")
    assert first(editor) == "r"
    editor.type("dO")
    editor.wait_for_text(renamed(CODE, "r").replace("Number", "No"))
    assert editor.lua("return vim.fn.undotree().seq_cur") == 1


def test_without_a_proposal_there_is_nothing_to_refine(editor: Editor) -> None:
    editor.type(":StetRefine anything at all<CR>")
    editor.wait_for_message("no proposal to refine")
    editor.type(":StetVersion<CR>")
    editor.wait_for_message("no other version here")


def test_the_last_rewrite_is_repeated_elsewhere(editor: Editor) -> None:
    editor.lua("vim.g.stet = { auto_accept = true }")
    editor.type(":1,3Stet s/y/radius/<CR>")
    head, rest = CODE[: CODE.index("def f1")], CODE[CODE.index("def f1") :]
    editor.wait_for_text(renamed(head, "radius") + rest)
    middle, tail = rest[: rest.index("def f2")], rest[rest.index("def f2") :]
    wait_for(lambda: editor.marks() == 0, "the preview to go")
    editor.type("7G:StetRepeat<CR>")
    editor.wait_for_text(renamed(head + middle, "radius") + tail)
    wait_for(lambda: editor.marks() == 0, "the preview to go")
    editor.type("GkkVgg:StetRepeat<CR>")
    editor.wait_for_text(renamed(CODE, "radius"))
