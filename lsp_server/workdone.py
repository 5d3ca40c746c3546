"""LSP's own progress bar for a job, for clients that show no stet/progress."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.progress import Progress

from lsp_server.jobs import Job

Token = str | int


async def create_token(progress: Progress, capabilities: lsp.ClientCapabilities) -> Token | None:
    """A progress bar of the server's own, with a fresh name each; None if the client has none to offer."""
    if not (capabilities.window and capabilities.window.work_done_progress):
        return None
    token = str(uuid.uuid4())
    try:
        await progress.create_async(token)
    except JsonRpcException:
        return None
    return token


@contextmanager
def shown(
    progress: Progress, token: Token | None, title: str, cancel: Callable[[], None]
) -> Iterator[Callable[[Job], None]]:
    """Show a bar while the body runs; yields what reports a job's state. The client's cancel button calls `cancel`."""
    if token is None:
        yield lambda job: None
        return

    def report(job: Job) -> None:
        meter = job.writing.meter
        progress.report(token, lsp.WorkDoneProgressReport(message=meter.message(), percentage=meter.percentage))

    def on_done(future: "Future[None]") -> None:
        if future.cancelled():
            cancel()

    progress.begin(token, lsp.WorkDoneProgressBegin(title=title, cancellable=True, message="starting", percentage=0))
    progress.tokens[token].add_done_callback(on_done)
    try:
        yield report
    finally:
        progress.end(token, lsp.WorkDoneProgressEnd())
        # pygls keeps tokens for ever.
        progress.tokens.pop(token, None)
