"""An engine for the editor tests: an OpenAI-compatible server that answers at the pace it is told, and counts.

It holds no model. Its answer is the request's prediction with the substitution `s/old/new/` that stands in the
instruction. One line of the answer is one pass. Other words of the instruction: `firmly`: in another try only;
`slowly`: a pass takes SLOW_S; `endlessly`: it does, and the last never comes; `briefly`: a third of the lines come;
`variously`: the new words of a request with a temperature are numbered, and that alone is endless. Run:
paced_engine.py PORT
"""

import json
import re
import select
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SLOW_S = 0.25
FAST_S = 0.002

counts = {"n_prefills": 0, "n_active": 0, "n_passes": 0, "n_finished": 0, "n_hung_up": 0, "n_various": 0}
lock = threading.Lock()


def count(**by: int) -> None:
    with lock:
        for name, n in by.items():
            counts[name] += n


def answer_to(request: dict[str, Any]) -> tuple[list[str], list[str], float, bool]:
    """The passes of an answer, the new words in it, how long a pass takes, and whether the last is left out."""
    instruction = request["messages"][-1]["content"]
    text = request["prediction"]["content"]
    if "firmly" in instruction and request["temperature"] == 0:
        instruction = ""
    number = ""
    is_first = "variously" in instruction and request["temperature"] == 0
    if "variously" in instruction and not is_first:
        count(n_various=1)
        number = f"_{counts['n_various']}"
    changes = [(old, new + number) for old, new in re.findall(r"s/([^/\n]+)/([^/\n]*)/", instruction)]
    for old, new in changes:
        text = re.sub(rf"\b{old}\b", new, text)
    words = [new for _, new in changes if new]
    lines = text.splitlines(keepends=True)
    if "briefly" in instruction:
        lines = lines[: len(lines) // 3]
    is_endless = "endlessly" in instruction and not is_first
    return lines, words, SLOW_S if "slowly" in instruction or is_endless else FAST_S, is_endless


def copied(text: str, words: list[str]) -> list[list[int]]:
    """The spans of a text around words."""
    places = re.finditer("|".join(map(re.escape, words)), text) if words else ()
    borders = [0, *(border for place in places for border in place.span()), len(text)]
    return [list(span) for span in zip(borders[::2], borders[1::2], strict=True) if span[0] < span[1]]


class Engine(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": "paced", "object": "model", "created": 0, "owned_by": "test"}]}
        self.send_json({"/health": {"status": "ok", "model": "paced", **counts}, "/v1/models": models}[self.path])

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if request.get("stet", {}).get("prefill_only") or request.get("max_tokens") == 1:
            count(n_prefills=1)
            self.send_json({"choices": [{"index": 0, "message": {"role": "assistant", "content": ""}}], "usage": {}})
            return
        count(n_active=1)
        try:
            self.stream(*answer_to(request))
            count(n_finished=1)
        except OSError:
            count(n_hung_up=1)
        finally:
            count(n_active=-1)

    def stream(self, passes: list[str], words: list[str], pass_s: float, is_endless: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for n_left, text in zip(reversed(range(len(passes))), passes, strict=True):
            time.sleep(pass_s)
            self.check_client()
            while is_endless and n_left == 0:
                time.sleep(FAST_S)
                self.check_client()
            count(n_passes=1)
            counts = {"n_tokens": 4, "n_copied": 3, "n_prefilled": 0}
            self.send_event({"content": text}, None, {**counts, "copied": copied(text, words)})
        n = 4 * len(passes)
        stats = {"n_prompt": 100, "n_cached": 0, "n_tokens": n, "n_passes": len(passes), "n_copied": 3 * len(passes)}
        self.send_event({}, "stop", {"stats": {**stats, "prefill_s": 0.1, "decode_s": 1.0}})
        self.wfile.write(b"data: [DONE]\n\n")

    def check_client(self) -> None:
        """An engine notices a closed connection before its next pass."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        if readable and not self.connection.recv(1, socket.MSG_PEEK):
            raise ConnectionResetError

    def send_event(self, delta: dict[str, str], finish: str | None, extension: dict[str, Any]) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        event = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "paced", "choices": [choice]}
        self.wfile.write(f"data: {json.dumps({**event, 'stet': extension})}\n\n".encode())
        self.wfile.flush()

    def send_json(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Engine).serve_forever()
