"""What pygls 2.1 does otherwise than we need, put right: sync, cancel of commands, malformed messages, shutdown.

Passes everything on to the server object; decides nothing about rewrites.
"""

import json
import logging
import os
from collections.abc import Generator
from typing import Any, cast

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcInvalidRequest, JsonRpcParseError
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage

from lsp_server.documents import Encoding
from lsp_server.prompts import RECIPES
from lsp_server.session import Session

OURS = "stet/"
NOT_JSON = (ValueError, RecursionError)
"""What json.loads raises: no JSON, no UTF-8, or nested too deeply."""

log = logging.getLogger(__name__)


class StetProtocol(LanguageServerProtocol):
    """pygls's protocol with our own documents behind it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.session = Session(notify=self.notify)

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Leave the params of our own messages as JSON; refuse what can't be read (pygls leaves the client waiting)."""
        if str(data.get("method", "")).startswith(OURS) and "jsonrpc" in data:
            if "id" in data:
                return JsonRPCRequestMessage(data["id"], data["method"], data["jsonrpc"], data.get("params"))
            return JsonRPCNotification(data["method"], data["jsonrpc"], data.get("params"))
        try:
            return super().structure_message(data)
        except JsonRpcException:
            if "method" in data and "id" in data:
                refusal = JsonRpcInvalidParams(f"the params of {data['method']} are not what LSP says they are")
                self._send_response(data["id"], error=refusal.to_response_error())
            return JsonRPCNotification("$/malformed", self.VERSION, None)

    def handle_message(self, message: Any) -> None:
        """Hand a message on; refuse JSON that is no message."""
        if getattr(message, "jsonrpc", None) != self.VERSION:
            self._refuse(JsonRpcInvalidRequest('a message must be a JSON object with "jsonrpc": "2.0"'))
            return
        super().handle_message(message)

    def refuse_unread(self, error: Exception) -> bool:
        """Answer for a body that is no JSON; False if it is another error."""
        if not isinstance(error, NOT_JSON):
            return False
        reason = str(error) if isinstance(error, json.JSONDecodeError) else type(error).__name__
        self._refuse(JsonRpcParseError(f"a message must be JSON in UTF-8: {reason}"))
        return True

    def _refuse(self, refusal: JsonRpcException) -> None:
        """Whose message it was can't be told: the id is null (JSON-RPC 2.0, section 5)."""
        log.error("%s", refusal.message)
        error = {"code": refusal.code, "message": refusal.message}
        self._send_data({"jsonrpc": self.VERSION, "id": None, "error": error})

    @lsp_method(lsp.INITIALIZE)
    def lsp_initialize(self, params: lsp.InitializeParams) -> Generator[Any, Any, lsp.InitializeResult]:
        """Say what we have beyond LSP."""
        result = yield from super().lsp_initialize(params)
        encoding = result.capabilities.position_encoding
        self.session.documents.encoding = cast(Encoding, getattr(encoding, "value", encoding) or "utf-16")
        recipes = [{"id": name, "title": recipe.title} for name, recipe in RECIPES.items()]
        result.capabilities.experimental = {"stet": {"protocol": 1, "recipes": recipes}}
        return result

    @lsp_method(lsp.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: lsp.DidOpenTextDocumentParams) -> None:
        """Take a document in."""
        document = params.text_document
        language = getattr(document.language_id, "value", document.language_id)
        self.session.documents.open(document.uri, document.version, document.text, language)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: lsp.DidChangeTextDocumentParams) -> None:
        """Follow the user's edits. pygls's own documents split lines where LSP doesn't."""
        changes = [self._converter.unstructure(change) for change in params.content_changes]
        documents, uri = self.session.documents, params.text_document.uri
        edits = documents.change(uri, params.text_document.version, changes)
        self.session.jobs.changed(edits, documents.get(uri))

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: lsp.DidCloseTextDocumentParams) -> None:
        """Forget a document and what was under way in it."""
        self.session.jobs.closed(params.text_document.uri)
        self.session.documents.close(params.text_document.uri)

    @lsp_method(lsp.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(self, params: lsp.ExecuteCommandParams) -> Any:  # type: ignore[override]
        """Run a command as a task: pygls's way, a generator, can't be cancelled and hides the progress token."""
        handler = self.fm.commands.get(params.command)
        if handler is None:
            raise JsonRpcInvalidParams(
                f"there is no command {params.command!r}; there are {', '.join(self.fm.commands)}"
            )
        return await handler(params)

    @lsp_method(lsp.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Generator[Any, Any, None]:
        """Stop everything; pygls's loop over running requests breaks when one of them ends meanwhile."""
        self.session.stop()
        self._shutdown = True
        yield from ()

    @lsp_method(lsp.EXIT)
    def lsp_exit(self, *args: Any) -> None:  # type: ignore[override]
        """Leave now."""
        leave(0 if self._shutdown else 1)


def leave(code: int) -> None:
    """End the process at once: a thread that waits for stdin, or for an engine to start, would hold it."""
    logging.shutdown()
    os._exit(code)
