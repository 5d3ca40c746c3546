"""What pygls 2.1 does otherwise than we need, put right: sync, cancel of commands, malformed messages, shutdown.

Passes everything on to the server object; decides nothing about rewrites.
"""

import json
import logging
import os
from collections.abc import Callable, Generator
from concurrent.futures import Future
from itertools import count
from typing import Any, cast

from lsprotocol import types as lsp
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
)
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.protocol.json_rpc import JsonRPCNotification, JsonRPCRequestMessage

from lsp_server.documents import Encoding
from lsp_server.recipes import RECIPES
from lsp_server.session import Session
from speculation.errors import StetError

OURS = "stet/"
FIRST_ID = 2**30
"""Of our requests: pygls keeps them in one table with the client's, who count from 0 or 1."""
NOT_JSON = (ValueError, RecursionError)
"""What json.loads raises: no JSON, no UTF-8, or nested too deeply."""
SYNC = (lsp.TEXT_DOCUMENT_DID_OPEN, lsp.TEXT_DOCUMENT_DID_CHANGE, lsp.TEXT_DOCUMENT_DID_CLOSE)
LOST = "a message of the editor could not be read, so the texts it holds are not known any more; open the files again"
FAILED = "the language server failed on this request, and its log says where; nothing was changed"

log = logging.getLogger(__name__)


class StetProtocol(LanguageServerProtocol):
    """pygls's protocol with our own documents behind it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.session = Session(notify=self.notify)
        self._ids = count(FIRST_ID)

    def send_request(
        self, method: str, params: Any = None, callback: Callable[[Any], None] | None = None, msg_id: Any = None
    ) -> "Future[Any]":
        """Ask the client. By a number: Vim's lsp plugin and old Kates can't answer an id like pygls's, a UUID."""
        return super().send_request(method, params, callback, next(self._ids) if msg_id is None else msg_id)

    def notify(self, method: str, params: Any = None) -> None:
        """Tell the client. Ours are JSON already; to walk through them as through pygls's own takes milliseconds."""
        if method.startswith(OURS):
            self._send_data({"jsonrpc": self.VERSION, "method": method, "params": params})
        else:
            super().notify(method, params)

    def receive(self, body: bytes) -> None:
        """Act on a message. What is none is refused; whatever it is, the next one will be read."""
        try:
            data = json.loads(body)
        except NOT_JSON as error:
            reason = str(error) if isinstance(error, json.JSONDecodeError) else type(error).__name__
            self.refuse(JsonRpcParseError(f"a message must be JSON in UTF-8: {reason}"))
            return
        try:
            _require_message(data)
            if self._shutdown and "id" in data and "method" in data:
                raise JsonRpcInvalidRequest("the server was told to shut down; only exit may follow")
        except JsonRpcInvalidRequest as refusal:
            self._answer(data.get("id") if isinstance(data, dict) else None, refusal)
            return
        # Nobody waits for an answer to an answer: one that names no request of ours is passed over.
        if "method" in data or _is_id(data["id"]):
            self.handle_message(self.structure_message(data))

    def refuse(self, refusal: JsonRpcException) -> None:
        """Answer a message that can't be read at all. It may have been a change: no text is trusted from here on."""
        self._answer(None, refusal)
        if self._workspace is not None:  # before initialize nothing is open
            self.session.distrust(None)
            self.session.tell_once(LOST)

    def _answer(self, msg_id: Any, refusal: JsonRpcException) -> None:
        """An error. Whose message it was can't always be told: then the id is null (JSON-RPC 2.0, section 5)."""
        log.error("%s", refusal.message)
        error = {"code": refusal.code, "message": refusal.message}
        self._send_data({"jsonrpc": self.VERSION, "id": msg_id if _is_id(msg_id) else None, "error": error})

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Leave the params of our own messages as JSON; refuse what can't be read (pygls leaves the client waiting)."""
        method = data.get("method")
        if method is not None and method.startswith(OURS):
            if "id" in data:
                return JsonRPCRequestMessage(data["id"], method, data["jsonrpc"], data.get("params"))
            return JsonRPCNotification(method, data["jsonrpc"], data.get("params"))
        try:
            return super().structure_message(data)
        except JsonRpcException:
            if method is None:
                error = lsp.ResponseError(JsonRpcInvalidParams.CODE, "the editor's answer is not what LSP says it is")
                self._handle_response(data["id"], error=error)
            elif "id" in data:
                self._answer(data["id"], JsonRpcInvalidParams(f"the params of {method} are not what LSP says they are"))
            elif method in SYNC:
                log.error("the params of %s are not what LSP says they are", method)
                self.session.distrust(_uri_in(data))
                self.session.tell_once(LOST)
            return JsonRPCNotification("$/malformed", self.VERSION, None)

    def _handle_cancel_notification(self, msg_id: Any) -> None:
        """Cancel a request; an id that can be none's is passed over."""
        if _is_id(msg_id):
            super()._handle_cancel_notification(msg_id)

    def _check_handler_result(self, future: "Future[Any]") -> None:
        """A request of ours that came as a notification and is refused: nobody to tell, and no failure of ours."""
        if future.cancelled() or not isinstance(future.exception(), JsonRpcException):
            super()._check_handler_result(future)

    def _handle_response(self, msg_id: Any, result: Any = None, error: lsp.ResponseError | None = None) -> None:
        """Take an answer to a request of ours; pygls fails on one that nobody waits for."""
        future = self._request_futures.get(msg_id)
        if isinstance(future, Future) and not future.done():
            super()._handle_response(msg_id, result, error)

    def _send_response(self, msg_id: Any, result: Any = None, error: lsp.ResponseError | None = None) -> None:
        """Answer; what was not foreseen without pygls's traceback, which is for the log."""
        if error and error.code == JsonRpcInternalError.CODE:
            error = lsp.ResponseError(error.code, FAILED)
        super()._send_response(msg_id, result, error)

    @lsp_method(lsp.INITIALIZE)
    def lsp_initialize(self, params: lsp.InitializeParams) -> Generator[Any, Any, lsp.InitializeResult]:
        """Say what we have beyond LSP."""
        folders = [folder.uri for folder in params.workspace_folders or []]
        self.session.folders = folders or ([params.root_uri] if params.root_uri else [])
        result = yield from super().lsp_initialize(params)
        encoding = result.capabilities.position_encoding
        self.session.documents.encoding = cast(Encoding, getattr(encoding, "value", encoding) or "utf-16")
        recipes = [
            {"id": name, "title": recipe.title, "languages": list(recipe.languages)} for name, recipe in RECIPES.items()
        ]
        result.capabilities.experimental = {"stet": {"protocol": 1, "recipes": recipes}}
        return result

    @lsp_method(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def lsp_workspace__did_change_workspace_folders(self, params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        """Follow the workspace."""
        removed = {folder.uri for folder in params.event.removed}
        kept = [uri for uri in self.session.folders if uri not in removed]
        self.session.folders = [*kept, *(folder.uri for folder in params.event.added)]

    @lsp_method(lsp.WINDOW_WORK_DONE_PROGRESS_CANCEL)
    def lsp_work_done_progress_cancel(self, params: lsp.WorkDoneProgressCancelParams) -> Generator[Any, Any, None]:
        """Cancel by progress bar; a token that can be none's is passed over."""
        if _is_id(params.token):
            yield from super().lsp_work_done_progress_cancel(params)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: lsp.DidOpenTextDocumentParams) -> None:
        """Take a document in."""
        document = params.text_document
        self.session.jobs.closed(document.uri)  # Some clients open it anew when the file changed on disk.
        language = getattr(document.language_id, "value", document.language_id)
        self.session.documents.open(document.uri, document.version, document.text, language)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: lsp.DidChangeTextDocumentParams) -> None:
        """Follow the user's edits. pygls's own documents split lines where LSP doesn't."""
        changes = [self._converter.unstructure(change) for change in params.content_changes]
        documents, uri = self.session.documents, params.text_document.uri
        try:
            edits = documents.change(uri, params.text_document.version, changes)
        except StetError:
            log.warning("a change of a document that is not open is passed over")
            return
        except Exception:
            # Whatever it is: what we hold is not what the editor shows any more.
            self.session.distrust(uri)
            raise
        self.session.jobs.changed(edits, documents.get(uri))

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: lsp.DidCloseTextDocumentParams) -> None:
        """Forget a document and what was under way in it."""
        self.session.distrust(params.text_document.uri)

    @lsp_method(lsp.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(self, params: lsp.ExecuteCommandParams) -> Any:  # type: ignore[override]
        """Run a command as a task: pygls's way, a generator, can't be cancelled and hides the progress token."""
        handler = self.fm.commands.get(params.command)
        if handler is None:
            raise JsonRpcInvalidParams(
                f"there is no command {params.command!r:.80}; there are {', '.join(self.fm.commands)}"
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


def _require_message(data: Any) -> None:
    """Raises JsonRpcInvalidRequest for JSON that is no message."""
    if not isinstance(data, dict) or data.get("jsonrpc") != LanguageServerProtocol.VERSION:
        raise JsonRpcInvalidRequest('a message must be a JSON object with "jsonrpc": "2.0"')
    if "method" not in data and "id" not in data:
        raise JsonRpcInvalidRequest("a message must have a method, an id or both")
    if "method" not in data:
        return
    if not isinstance(data["method"], str):
        raise JsonRpcInvalidRequest("method must be a string")
    if "id" in data and not _is_id(data["id"]):
        raise JsonRpcInvalidRequest("id must be a string or a whole number")
    message_types = lsp.METHOD_TO_TYPES.get(data["method"])
    if "id" in data and message_types and message_types[1] is None:
        raise JsonRpcInvalidRequest(f"{data['method']} is a notification; it has no id")


def _is_id(value: Any) -> bool:
    # bool is an int in Python, but not in JSON.
    return isinstance(value, str | int) and not isinstance(value, bool)


def _uri_in(data: dict[str, Any]) -> str | None:
    """Of which document a message speaks, as far as that can be told."""
    try:
        uri = data["params"]["textDocument"]["uri"]
    except (LookupError, TypeError):
        return None
    return uri if isinstance(uri, str) else None


def leave(code: int) -> None:
    """End the process at once: a thread that waits for stdin, or for an engine to start, would hold it."""
    logging.shutdown()
    os._exit(code)
