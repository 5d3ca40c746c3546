"""The user's word before a rewrite with warnings is applied, in editors that show no preview."""

from collections.abc import Sequence

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from lsp_server.accept import Apply

APPLY = "Apply"
DISCARD = "Discard"
ANNOTATION = "stet"


async def confirmed(server: LanguageServer, warnings: Sequence[str]) -> Apply | None:
    """How to apply a rewrite: at once, or by an edit that the editor has the user confirm; None if the user says no."""
    apply = server.workspace_apply_edit_async
    if not warnings:
        return apply
    message = f"Stet: {'; '.join(warnings)}"
    if not _shows_annotations(server.client_capabilities):
        return apply if await _ask(server, message) else None

    async def apply_annotated(params: lsp.ApplyWorkspaceEditParams) -> lsp.ApplyWorkspaceEditResult:
        params.edit.change_annotations = {
            ANNOTATION: lsp.ChangeAnnotation(
                "Stet: look before you apply", needs_confirmation=True, description=message
            )
        }
        for document in params.edit.document_changes or []:
            assert isinstance(document, lsp.TextDocumentEdit)
            document.edits = [
                lsp.AnnotatedTextEdit(ANNOTATION, edit.range, edit.new_text)
                for edit in document.edits
                if isinstance(edit, lsp.TextEdit)
            ]
        return await apply(params)

    return apply_annotated


def _shows_annotations(capabilities: lsp.ClientCapabilities) -> bool:
    edit = capabilities.workspace and capabilities.workspace.workspace_edit
    return bool(edit and edit.change_annotation_support)


async def _ask(server: LanguageServer, message: str) -> bool:
    """Whether the user wants it. An editor that can't ask has not said yes."""
    choices = [lsp.MessageActionItem(APPLY), lsp.MessageActionItem(DISCARD)]
    params = lsp.ShowMessageRequestParams(lsp.MessageType.Warning, f"{message}. Apply it?", choices)
    try:
        answer = await server.window_show_message_request_async(params)
    except JsonRpcException:
        server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Error, f"{message}. Nothing was changed."))
        return False
    return answer is not None and answer.title == APPLY
