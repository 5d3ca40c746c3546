"""Complaints that need no editor: the server's own process, and the engine's form of a prompt."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
from lsp_editor import CODE, SERVER
from test_lsp_server import receive, send

NOISY = """
import os
from lsp_server import server
make = server.make_server
def noisy():
    print("noise", flush=True)
    os.write(1, b"noise")
    return make()
server.make_server = noisy
server.serve_stdio()
"""


@pytest.mark.complaint(79, "openlawlibrary/pygls#240")
def test_what_a_library_prints_is_not_taken_for_a_message() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", NOISY], stdin=pipe, stdout=pipe, stderr=pipe) as server:
        send(server, id=1, method="initialize", params={"processId": None, "capabilities": {}})
        assert receive(server)["id"] == 1
        send(server, method="exit")
        assert server.wait(20) == 1
        assert server.stderr is not None and server.stderr.read().decode().count("noise") == 2


@pytest.mark.complaint(79, "openlawlibrary/pygls#118")
def test_a_dead_editor_leaves_no_server_behind() -> None:
    """Also when another process holds the other end of its stdin."""
    pipe = subprocess.PIPE
    with subprocess.Popen(["sleep", "600"]) as parent, subprocess.Popen(SERVER, stdin=pipe, stdout=pipe) as server:
        send(server, id=1, method="initialize", params={"processId": parent.pid, "capabilities": {}})
        receive(server)
        parent.kill()
        parent.wait()
        server.wait(20)


@pytest.mark.torch
@pytest.mark.complaint(9, "zed-industries/zed#52585")
@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}",
        "{% for m in messages %}[{{ m.role }}] {{ m.content }} [/{{ m.role }}]{% endfor %}",
    ],
)
def test_the_engine_puts_messages_into_the_models_own_form(tmp_path: Path, template: str) -> None:
    import tiny

    from speculation.models.tokenizer import Tokenizer

    theirs = copy.copy(tiny.tokenizer())  # All tests share that one.
    theirs.chat_template = template
    theirs.save_pretrained(tmp_path)
    messages = [{"role": "system", "content": "Be exact."}, {"role": "user", "content": CODE}]
    wanted = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert Tokenizer(tmp_path).encode_chat(messages) == wanted
