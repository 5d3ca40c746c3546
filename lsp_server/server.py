"""The language server: registration only. Each handler reads its params, and one function elsewhere answers."""

import asyncio
import logging
import os
import sys
import threading
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidRequest
from pygls.lsp.server import LanguageServer

from lsp_server import code_actions, wire, workdone
from lsp_server.accept import UNSEEN, accept
from lsp_server.confirm import confirmed
from lsp_server.jobs import Cancelled
from lsp_server.params import Params
from lsp_server.protocol import StetProtocol, leave
from lsp_server.recipes import listed
from lsp_server.rewrite import prepare, reject, run_job, start_job
from lsp_server.session import Session, invalid
from lsp_server.settings import read_settings
from speculation.errors import ConfigError

log = logging.getLogger(__name__)
PARENT_POLL_S = 2.0
SWITCH_S = 0.0005
"""How long the thread that parses a result may keep the interpreter to itself: Python's 5 ms, several times a
keystroke, are felt."""
UNCHANGED = "Stet: nothing to change here"
TRY_AGAIN = "Try again"


def stet_version() -> str:
    """The installed version."""
    try:
        return version("stet-lsp")
    except PackageNotFoundError:
        return "0+unknown"


class StetServer(LanguageServer):
    """One editor's server."""

    protocol: StetProtocol

    def __init__(self) -> None:
        super().__init__("stet", stet_version(), protocol_cls=StetProtocol)

    @property
    def session(self) -> Session:
        """What this connection holds."""
        return self.protocol.session

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log what was not foreseen. Popping up each failure, as pygls does, is noise: requests are answered anyway.

        Without the exception's own words, which may quote the user's text.
        """
        if isinstance(error, JsonRpcInternalError):
            log.error("a handler failed\n%s", "".join((error.data or {}).get("traceback", [])))
        elif not isinstance(error, JsonRpcException):
            log.error("a handler failed: %s", type(error).__name__)

    def show(self, kind: lsp.MessageType, message: str) -> None:
        """Show the user a line."""
        self.window_show_message(lsp.ShowMessageParams(kind, message))

    def take_settings(self, given: object) -> None:
        """Use new settings; what can't be used is said in one message."""
        self.session.settings, problems = read_settings(given)
        if problems:
            self.show(lsp.MessageType.Warning, "Stet: " + "; ".join(problems))


def make_server() -> StetServer:
    """A server with all its handlers."""
    server = StetServer()
    session = server.session

    @server.feature(lsp.INITIALIZE)
    def on_initialize(params: lsp.InitializeParams) -> None:
        server.take_settings(params.initialization_options)
        if params.process_id is not None and os.name == "posix":
            watch_parent(params.process_id)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def on_configuration(params: lsp.DidChangeConfigurationParams) -> None:
        # Clients that expect to be asked send null here; then what initialize brought stands.
        if isinstance(params.settings, dict) and "stet" in params.settings:
            server.take_settings(params.settings["stet"])

    @server.feature("stet/prepare")
    async def on_prepare(params: Any) -> dict[str, Any]:
        return await prepare(session, params)

    @server.feature("stet/rewrite")
    async def on_rewrite(params: Any) -> dict[str, Any]:
        return await run_with_bar(server, Params.of(params))

    @server.feature("stet/accept")
    async def on_accept(params: Any) -> dict[str, Any]:
        return await accept(session, server.workspace_apply_edit_async, job_id(params), hunk_ids(params))

    @server.feature("stet/reject")
    def on_reject(params: Any) -> None:
        reject(session, job_id(params), hunk_ids(params))

    @server.feature("stet/recipes")
    def on_recipes(params: Any) -> dict[str, Any]:
        uri = document_uri(params)
        try:
            language_id = session.documents.get(uri).language_id
        except ConfigError as error:
            invalid(str(error))
        return {"recipes": listed(session.recipes(session.project(uri)), language_id)}

    kinds = [code_actions.REWRITE, code_actions.QUICKFIX]

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=kinds))
    def on_code_action(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        if not session.settings.code_actions:
            return []
        uri = params.text_document.uri
        recipes = session.recipes(session.project(uri))
        is_tagged = knows_llm_tag(server.client_capabilities)
        return code_actions.code_actions(params, recipes, session.language_of(uri), is_tagged=is_tagged)

    @server.command(code_actions.COMMAND)
    async def on_command(params: lsp.ExecuteCommandParams) -> dict[str, Any]:
        return await run_command(server, params)

    return server


def job_id(params: Any) -> str:
    """The jobId of a request's params."""
    if not isinstance(params, dict) or not isinstance(params.get("jobId"), str):
        invalid("jobId must be a string: the jobId of a stet/rewrite")
    return cast(str, params["jobId"])


def document_uri(params: Any) -> str:
    """The document of a request's params."""
    document = params.get("textDocument") if isinstance(params, dict) else None
    if not isinstance(document, dict) or not isinstance(document.get("uri"), str):
        invalid("textDocument must be an object with a uri")
    return cast(str, document["uri"])


def hunk_ids(params: dict[str, Any]) -> list[int] | None:
    """The hunks that a request names; None: all."""
    ids = params.get("hunks")
    if ids is not None and not (isinstance(ids, list) and all(type(each) is int for each in ids)):
        invalid("hunks must be a list of hunk ids")
    return ids


def knows_llm_tag(capabilities: lsp.ClientCapabilities) -> bool:
    """Whether the client shows that an action is a model's work."""
    action = capabilities.text_document and capabilities.text_document.code_action
    return bool(action and action.tag_support and lsp.CodeActionTag.LlmGenerated in action.tag_support.value_set)


async def run_with_bar(server: StetServer, params: Params) -> dict[str, Any]:
    """Rewrite, with a progress bar if there is a token."""
    job, request = start_job(server.session, params)
    title = "Stet: rewriting"
    cancel = Cancelled("the rewrite was cancelled")
    with workdone.shown(server.work_done_progress, params.work_done_token, title, lambda: job.stop(cancel)) as report:
        return await run_job(server.session, job, request, report)


async def run_command(server: StetServer, given: lsp.ExecuteCommandParams) -> dict[str, Any]:
    """The command for plain clients: rewrite and apply at once; what goes wrong is shown."""
    arguments = given.arguments or []
    if len(arguments) != 1 or not isinstance(arguments[0], dict):
        invalid(f"{given.command} takes one argument: the params of stet/rewrite")
    token = given.work_done_token
    if token is None:
        token = await workdone.create_token(server.work_done_progress, server.client_capabilities)
    try:
        result = await run_with_bar(server, Params.of({**arguments[0], "workDoneToken": token}))
        while result["status"] == "unchanged":
            if not await wants_another_try(server):
                return {"status": "unchanged", "applied": False}
            token = await workdone.create_token(server.work_done_progress, server.client_capabilities)
            result = await run_with_bar(server, Params.of({**arguments[0], "again": True, "workDoneToken": token}))
        apply = await confirmed(server, [warning["message"] for warning in result["warnings"]])
        if apply is None:
            reject(server.session, result["jobId"])
            return {"status": "proposed", "applied": False}
        answer = await accept(server.session, apply, result["jobId"], None)
    except JsonRpcException as error:
        if error.code == lsp.LSPErrorCodes.RequestCancelled:
            return {"status": "cancelled", "applied": False}
        server.show(lsp.MessageType.Error, f"Stet: {error.message}")
        return {"status": "failed", "applied": False}
    if not answer["applied"]:
        reject(server.session, result["jobId"])
        if answer["message"] == UNSEEN:
            # An editor that waits for our answer, as Emacs does, tells of its changes only then.
            return {"status": "proposed", "applied": True}
        server.show(lsp.MessageType.Error, f"Stet: {answer['message']}")
    return {"status": "proposed", "applied": answer["applied"]}


async def wants_another_try(server: StetServer) -> bool:
    """Say that nothing changed, and ask; a client that can't ask the user only says it."""
    actions = [lsp.MessageActionItem(TRY_AGAIN)]
    question = lsp.ShowMessageRequestParams(lsp.MessageType.Info, UNCHANGED, actions)
    try:
        answer = await server.window_show_message_request_async(question)
    except JsonRpcException:
        server.show(lsp.MessageType.Info, UNCHANGED)
        return False
    return answer is not None and answer.title == TRY_AGAIN


def watch_parent(pid: int) -> None:
    """Leave when the editor dies: stdin alone doesn't tell if another process holds its other end."""
    if not _is_alive(pid):
        return  # an editor outside of our container, say
    is_parent = os.getppid() == pid

    def watch() -> None:
        # A dead one that nobody has waited for can still be signalled, but is nobody's parent.
        while _is_alive(pid) and (os.getppid() == pid or not is_parent):
            time.sleep(PARENT_POLL_S)
        leave(1)

    threading.Thread(target=watch, daemon=True).start()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # It lives, as another user.
    return True


def serve_stdio() -> None:
    """Speak LSP on stdin and stdout until the client is gone. Nothing else can write to stdout from here on."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.setswitchinterval(SWITCH_S)
    server = make_server()
    protocol = server.protocol
    protocol.set_writer(wire.Writer(out, on_lost=lambda: leave(1)))

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                body = await loop.run_in_executor(server.thread_pool, wire.read_message, sys.stdin.buffer)
                if body is None:
                    break
                protocol.receive(body)
            except wire.TooLong as error:
                protocol.refuse(JsonRpcInvalidRequest(str(error)))
            except Exception:
                log.exception("can't handle a message")
        leave(0)

    asyncio.run(serve())
