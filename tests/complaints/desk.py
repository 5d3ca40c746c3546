"""How the complaints' tests ask for a rewrite, and look at what became of the document."""

from itertools import count
from typing import Any

from lsp_editor import Editor, plain
from stub_engine import StubEngine

numbers = count()


def fenced(code: str, fence: str = "```", name: str = "") -> str:
    """Code as a model hands it over."""
    return f"{fence}{name}\n{code}{fence}\n"


def pieces(answer: str) -> list[str]:
    """An answer as it comes, cut without regard to lines; a long one in longer pieces."""
    size = max(5, len(answer) // 200)
    return [answer[at : at + size] for at in range(0, len(answer), size)]


async def propose(
    ed: Editor, engine: StubEngine, text: str, answer: str, first: int = 0, last: int | None = None, **more: Any
) -> tuple[str, dict[str, Any]]:
    """Open a document and have its lines first up to last (all) rewritten; the model says `answer`, word for word."""
    uri = ed.open(text, uri=f"file:///demo/{next(numbers)}.py")
    engine.pieces = pieces(answer)
    last = len(ed.documents.get(uri).lines) if last is None else last
    return uri, await ed.rewrite(uri, first, last, **more)


async def accept(ed: Editor, uri: str, hunks: list[int] | None = None) -> str:
    """The document once hunks (all) are accepted."""
    answer = await ed.request("stet/accept", {"jobId": "job", **({} if hunks is None else {"hunks": hunks})})
    assert answer["applied"], answer
    return ed.text(uri)


async def rewritten(
    ed: Editor, engine: StubEngine, text: str, answer: str, first: int = 0, last: int | None = None, **more: Any
) -> str:
    """The document after a rewrite that was accepted as a whole."""
    uri, result = await propose(ed, engine, text, answer, first, last, **more)
    assert result["status"] == "proposed"
    return await accept(ed, uri)


def asked(engine: StubEngine) -> str:
    """All that the engine was last asked, as the model reads it."""
    return "\n".join(message["content"] for message in engine.requests[-1]["messages"])


def listen(ed: Editor) -> list[dict[str, Any]]:
    """From now on, every message that the server sends."""
    heard: list[dict[str, Any]] = []
    protocol = ed.client.protocol
    structure = protocol.structure_message

    def record(data: dict[str, Any]) -> Any:
        heard.append(plain(data))
        return structure(data)

    protocol.structure_message = record  # type: ignore[method-assign]
    return heard
