"""Promises of speculation.models.hub, against a hub of our own on this machine, named by HF_ENDPOINT."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

COMMIT = "1" * 40
FILES = {
    "toy/GGUF": {"toy.gguf": b"one-two-three"},
    "toy/Model": {
        "config.json": b"{}",
        "model-00001-of-00001.safetensors": b"weights",
        "model.safetensors.index.json": b"{}",
        "consolidated.safetensors": b"the same weights again",
        "pytorch_model.bin": b"pickle",
        "modeling_evil.py": b"import evil",
        "tokenizer.json": b"{}",
        "onnx/model.safetensors": b"other",
    },
    "toy/Pickled": {"config.json": b"{}", "pytorch_model.bin": b"pickle"},
}


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's HTTP interface as its client needs."""

    def do_GET(self) -> None:
        asked = self.path.partition("?")[0].strip("/").split("/")
        if asked[:2] == ["api", "models"]:
            self._info("/".join(asked[2:4]))
        else:
            self._file("/".join(asked[:2]), "/".join(asked[4:]))

    do_HEAD = do_GET

    def _info(self, repo: str) -> None:
        if repo not in FILES:
            self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            return
        siblings = [{"rfilename": name, "size": len(data)} for name, data in FILES[repo].items()]
        self._answer(200, json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings}).encode())

    def _file(self, repo: str, name: str) -> None:
        data = FILES[repo].get(name)
        if data is None:
            self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        self._answer(200, data, {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def check(code: str, endpoint: str, folder: Path, expected: str, **env: str) -> None:
    """What code prints in a process of its own: the hub's client reads its environment when it is imported."""
    prelude = (
        "from pathlib import Path\n"
        "from speculation.errors import StetError\n"
        "from speculation.models import hub, fetch, store\n"
        "from speculation.models.catalog import GgufSource, PyPIParts\n"
        "from speculation.models.fetch import Plan\n"
        f"folder = Path({str(folder)!r})\n"
        "def said(call, *args):\n"
        "    try:\n"
        "        return call(*args)\n"
        "    except StetError as error:\n"
        "        return f'{type(error).__name__}: {error}'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", prelude + code],
        env=os.environ | {"HF_ENDPOINT": endpoint, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "0", **env},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout.strip(), done.returncode) == (expected, 0), done.stderr


def test_the_quantized_file_lands_byte_identical(endpoint, tmp_path):
    code = """
print(hub.has_file("toy/GGUF", "toy.gguf"), hub.has_file("toy/GGUF", "no.gguf"))
print(hub.download("toy/GGUF", "toy.gguf", folder).read_bytes().decode())
"""
    check(code, endpoint, tmp_path, "True False\none-two-three")


def test_any_other_id_is_a_snapshot_without_pickle_and_code(endpoint, tmp_path):
    code = """
path = fetch.fetch("toy/Model", folder / "m", lambda what, done, total: None)
print(sorted(file.name for file in path.iterdir()))
print(store.find("toy/Model", folder / "m") == path)
"""
    files = [
        "config.json",
        "model-00001-of-00001.safetensors",
        "model.safetensors.index.json",
        "stet.json",
        "tokenizer.json",
    ]
    check(code, endpoint, tmp_path, f"{files}\nTrue")


def test_what_the_hub_cannot_give_is_said_in_one_line(endpoint, tmp_path):
    code = """
print(said(fetch.make_plan, "toy/Pickled", folder))
print(said(fetch.make_plan, "toy/Nothing", folder))
"""
    expected = (
        "ModelError: toy/Pickled has no safetensors weights on the hub, and Stet loads no other kind from there\n"
        f"ModelError: no model toy/Nothing on {endpoint}"
    )
    check(code, endpoint, tmp_path, expected)


def test_offline_the_hub_is_not_asked(endpoint, tmp_path):
    code = """
print(hub.has_file("toy/GGUF", "toy.gguf"))
print(said(fetch.make_plan, "toy/Model", folder))
"""
    expected = "False\nFetchError: toy/Model is not fetched, and HF_HUB_OFFLINE forbids to fetch it"
    check(code, endpoint, tmp_path, expected, HF_HUB_OFFLINE="1")


def test_no_hub_at_all_is_said_in_one_line(tmp_path):
    code = """
print(hub.has_file("toy/GGUF", "toy.gguf"))
print(said(fetch.make_plan, "toy/Model", folder))
"""
    # Nobody listens on port 9 (discard).
    nobody = "http://127.0.0.1:9"
    refused = "[Errno 111] Connection refused; fetch again to resume"
    expected = f"False\nFetchError: toy/Model could not be fetched from {nobody}: {refused}"
    check(code, nobody, tmp_path, expected)
