"""Code actions from the text alone, in milliseconds: the model is asked only when one is chosen."""

from collections.abc import Mapping, Sequence
from typing import Any

from lsprotocol import types as lsp

from lsp_server.recipes import COMMON, Recipe, kind_of

COMMAND = "stet.rewrite"
REWRITE = "refactor.rewrite.stet"
QUICKFIX = "quickfix.stet"


def code_actions(
    params: lsp.CodeActionParams, recipes: Mapping[str, Recipe], language_id: str, *, is_tagged: bool
) -> list[lsp.CodeAction]:
    """What is on offer for a range. recipes: by id; is_tagged: the client knows the tag LLMGenerated."""
    context = params.context
    if context.trigger_kind == lsp.CodeActionTriggerKind.Automatic:
        return []
    tags = [lsp.CodeActionTag.LlmGenerated] if is_tagged else None
    # A cursor is on some line at any time; who selects code, or asks for refactorings, is told all that there is.
    is_short = params.range.start == params.range.end and not context.only
    actions = [
        _action(params, f"{REWRITE}.{name}", recipe.title, {"recipe": name}, tags)
        for name, recipe in recipes.items()
        if name != "fix-diagnostic"
        and recipe.suits(language_id)
        and (not is_short or name in COMMON or kind_of(name) != "builtin")
        and _is_wanted(f"{REWRITE}.{name}", context.only)
    ]
    if context.diagnostics and _is_wanted(QUICKFIX, context.only):
        fix = _action(params, QUICKFIX, _fix_title(context.diagnostics), {"recipe": "fix-diagnostic"}, tags)
        fix.diagnostics = list(context.diagnostics)
        actions.insert(0, fix)
    return actions


def _action(
    params: lsp.CodeActionParams, kind: str, title: str, task: dict[str, Any], tags: list[lsp.CodeActionTag] | None
) -> lsp.CodeAction:
    argument = {
        "textDocument": {"uri": params.text_document.uri},
        "range": _json(params.range),
        **task,
        "diagnostics": [
            {"range": _json(each.range), "message": each.message}
            for each in params.context.diagnostics
            if task["recipe"] == "fix-diagnostic"
        ],
    }
    title = f"Stet: {title}"
    return lsp.CodeAction(title=title, kind=kind, command=lsp.Command(title, COMMAND, arguments=[argument]), tags=tags)


def _fix_title(diagnostics: Sequence[lsp.Diagnostic]) -> str:
    message = " ".join(diagnostics[0].message.split())
    return (
        f"Fix: {message[:60]}"
        + ("…" if len(message) > 60 else "")
        + (f" (+{len(diagnostics) - 1})" if diagnostics[1:] else "")
    )


def _is_wanted(kind: str, only: Sequence[lsp.CodeActionKind | str] | None) -> bool:
    """Kinds are a tree: who asks for `refactor` gets `refactor.rewrite` too."""
    wanted = [each.value if isinstance(each, lsp.CodeActionKind) else each for each in only or [""]]
    return any(each == "" or kind == each or kind.startswith(each + ".") for each in wanted)


def _json(span: lsp.Range) -> dict[str, Any]:
    return {
        side: {"line": position.line, "character": position.character}
        for side, position in (("start", span.start), ("end", span.end))
    }
