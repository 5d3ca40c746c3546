"""The engine as a process of its own: one per user, found, started, stopped, and what a dead one leaves behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from fake_engine import PROGRAM, FakeEngine, connect, own_folders, running, wait_for

from speculation.cli.engine import engine as engine_command
from speculation.config import EngineConfig
from speculation.errors import EngineError
from speculation.serving import process, runtime
from speculation.serving.runtime import Endpoint

CONFIG = EngineConfig(model="fake/model", database=None)
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with own_folders(monkeypatch) as folder:
        yield folder


@pytest.fixture
def behave(monkeypatch: pytest.MonkeyPatch) -> "Behave":
    return Behave(monkeypatch)


class Behave:
    """How the fake engines that are started from here on behave."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, **arguments: object) -> None:
        self._monkeypatch.setenv("FAKE_ENGINE", json.dumps(arguments))


def start(config: EngineConfig = CONFIG, **options: float) -> Endpoint:
    return process.start(config, program=PROGRAM, **options)


def ask(endpoint: Endpoint) -> str:
    with connect(endpoint) as http:
        answer = http.post("/v1/chat/completions", json={"messages": HI})
    return answer.json()["choices"][0]["message"]["content"]


def is_gone(endpoint: Endpoint) -> bool:
    """No such process, or a zombie that nobody has waited for yet."""
    status = Path(f"/proc/{endpoint.pid}/stat")
    try:
        return status.read_text().rsplit(") ", 1)[1].startswith("Z") if status.exists() else not _exists(endpoint.pid)
    except OSError:
        return True


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_is_started_found_and_stopped() -> None:
    assert process.find() is None
    endpoint = start()
    assert process.find() == endpoint
    assert ask(endpoint) == "Hello, world"
    assert process.stop() is True
    assert process.find() is None
    assert process.stop() is False


def test_it_outlives_the_process_that_started_it() -> None:
    starter = (
        "import sys; from speculation.serving import process; from speculation.config import EngineConfig\n"
        "print(process.start(EngineConfig(model='fake/model', database=None), program=sys.argv[1:]).pid)"
    )
    done = subprocess.run([sys.executable, "-c", starter, *PROGRAM], capture_output=True, text=True, check=True)
    endpoint = process.find()
    assert endpoint and endpoint.pid == int(done.stdout)
    assert os.getsid(endpoint.pid) == endpoint.pid


def test_ten_simultaneous_starts_give_one_process() -> None:
    starter = (
        "import sys; from speculation.serving import process; from speculation.config import EngineConfig\n"
        "print(process.start(EngineConfig(model='fake/model', database=None), program=sys.argv[1:]).pid)"
    )
    starters = [
        subprocess.Popen([sys.executable, "-c", starter, *PROGRAM], stdout=subprocess.PIPE, text=True)
        for _ in range(10)
    ]
    pids = {starter.communicate()[0].strip() for starter in starters}
    endpoint = process.find()
    assert endpoint and pids == {str(endpoint.pid)}


def test_what_a_killed_engine_left_is_cleared_away_when_it_is_to_stop(folder: Path) -> None:
    """On TCP another program may listen where it did."""
    runtime.write_endpoint(folder, Endpoint(pid=1, port=9))
    runtime.new_token(folder)
    assert process.stop() is False
    assert runtime.read_endpoint(folder) is None and not (folder / "engine.json").exists()


def test_a_log_that_another_engine_holds_is_written_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where a file that is open can't be renamed."""

    def replace(path: Path, target: Path) -> None:
        raise PermissionError(32, "used by another process")

    log = runtime.log_path()
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("before\n")
    monkeypatch.setattr(type(log), "replace", replace)
    start()
    assert log.read_text().startswith("before\n")


def test_killed_in_mid_stream_the_client_hears_it_and_the_next_start_works(behave: Behave) -> None:
    behave(chunks=["x"] * 1000, delay_s=0.02)
    endpoint = start()
    with (
        connect(endpoint) as http,
        http.stream("POST", "/v1/chat/completions", json={"messages": HI, "stream": True}) as answer,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        for n, _ in enumerate(answer.iter_text()):
            if n == 3:
                os.kill(endpoint.pid, signal.SIGKILL)
    assert endpoint.socket and Path(endpoint.socket).exists()
    assert process.find() is None
    behave()
    second = start()
    assert second.pid != endpoint.pid
    assert ask(second) == "Hello, world"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_with_the_running_request_told(behave: Behave, number: int) -> None:
    behave(chunks=["x"] * 1000, delay_s=0.02)
    endpoint = start()
    text = ""
    with (
        connect(endpoint) as http,
        http.stream("POST", "/v1/chat/completions", json={"messages": HI, "stream": True}) as answer,
    ):
        for n, part in enumerate(answer.iter_text()):
            text += part
            if n == 3:
                os.kill(endpoint.pid, number)
    assert '"code": "engine_stopping"' in text.strip().split("\n\n")[-1]
    wait_for(lambda: is_gone(endpoint))
    assert endpoint.socket and not Path(endpoint.socket).exists()


def test_it_leaves_when_idle_but_not_while_it_works(behave: Behave) -> None:
    behave(chunks=["x"] * 10, delay_s=0.1)
    endpoint = start(idle_exit_s=0.5)
    assert ask(endpoint) == "x" * 10
    wait_for(lambda: process.find() is None)
    wait_for(lambda: is_gone(endpoint))
    assert "idle for" in runtime.log_path().read_text()


def test_it_answers_while_the_weights_load_and_a_request_waits_for_them(behave: Behave) -> None:
    behave(load_s=2.0)
    endpoint = start()
    said = process.health(endpoint)
    assert said and (said.status, said.model) == ("loading", "fake/model")
    with connect(endpoint) as http:
        answer = http.post("/v1/chat/completions", json={"messages": HI, "stream": True})
    assert ": loading" in answer.text
    assert '"model": "fake/model"' in answer.text
    assert process.wait_until_loaded(endpoint).status == "ok"


def test_a_failed_load_is_said_to_all_who_ask_and_then_it_leaves(behave: Behave) -> None:
    behave(fail_open="no such model: fake/model; see: stet models list")
    endpoint = start()
    with pytest.raises(EngineError, match="can't be loaded: no such model"):
        process.wait_until_loaded(endpoint)
    with connect(endpoint) as http:
        assert http.get("/health").json()["status"] == "failed"
        answer = http.post("/v1/chat/completions", json={"messages": HI})
    assert answer.status_code == 500
    assert "no such model" in answer.json()["error"]["message"]
    wait_for(lambda: is_gone(endpoint))
    assert runtime.log_path().read_text().splitlines()[-1].startswith("stet: error: the model can't be loaded: no such")


def test_a_start_after_a_failed_load_starts_anew(behave: Behave) -> None:
    """Once the engine on its way out was taken for one that runs another model."""
    behave(fail_open="no such model: typo")
    failed = start(EngineConfig(model="typo", database=None))
    with pytest.raises(EngineError, match="no such model"):
        process.wait_until_loaded(failed)
    behave()
    endpoint = start()
    assert endpoint.pid != failed.pid
    assert process.wait_until_loaded(endpoint).status == "ok"


def test_a_failed_engine_that_leaves_between_two_questions_is_not_taken_for_one_that_runs(
    behave: Behave, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(fail_open="no such model: typo")
    failed = start(EngineConfig(model="typo", database=None))
    with pytest.raises(EngineError, match="no such model"):
        process.wait_until_loaded(failed)
    asked = process.health

    def last_words(endpoint: Endpoint) -> process.Health | None:
        said = asked(endpoint)
        if said and said.status == "failed":
            wait_for(lambda: is_gone(failed))
        return said

    monkeypatch.setattr(process, "health", last_words)
    behave()
    assert start().pid != failed.pid


def test_a_process_that_dies_at_once_is_reported_with_its_last_words() -> None:
    with pytest.raises(EngineError, match=r"did not start: no torch here \(log: .*engine.log\)"):
        process.start(CONFIG, program=(sys.executable, "-c", "import sys; sys.exit('no torch here')"))


def test_another_model_than_the_running_one_is_refused_and_auto_takes_what_runs() -> None:
    endpoint = start()
    with pytest.raises(EngineError, match=rf"running with fake/model \(pid {endpoint.pid}\), not other.*engine stop"):
        start(EngineConfig(model="other", database=None))
    assert start(EngineConfig(model="auto", database=None)) == endpoint
    assert start() == endpoint


def test_a_model_in_a_folder_is_the_same_from_wherever_it_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "mine").mkdir()
    monkeypatch.chdir(folder)
    endpoint = start(EngineConfig(model="mine", database=None))
    assert start(EngineConfig(model=str(folder / "mine"), database=None)) == endpoint


def test_an_engine_that_hangs_is_stopped_by_force() -> None:
    endpoint = start()
    os.kill(endpoint.pid, signal.SIGSTOP)
    assert process.stop(grace_s=0.3) is True
    wait_for(lambda: is_gone(endpoint))


def test_a_module_in_the_working_folder_is_not_run_by_the_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor stands in a project that may hold a json.py of its own, or of somebody who means harm."""
    (folder / "json.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(folder)
    done = subprocess.run([*process.PROGRAM, "--help"], capture_output=True, text=True, cwd=folder, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--idle-exit" in done.stdout


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_runtime_folder_that_is_open_to_others_is_refused(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    with pytest.raises(EngineError, match=r"open to others.*chmod 700"):
        process.find()
    folder.chmod(0o700)


def test_a_runtime_folder_behind_a_link_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "real").mkdir(mode=0o700)
    (folder / "link").symlink_to(folder / "real")
    monkeypatch.setenv("STET_RUNTIME_DIR", str(folder / "link"))
    with pytest.raises(EngineError, match="not a folder"):
        process.find()


def test_a_runtime_folder_is_made_for_its_user_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STET_RUNTIME_DIR", str(folder / "a" / "b"))
    assert process.find() is None
    assert [path.stat().st_mode & 0o777 for path in (folder / "a", folder / "a" / "b")] == [0o700, 0o700]


def test_without_a_session_the_runtime_folder_is_found_without_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STET_RUNTIME_DIR")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert runtime.runtime_dir().stat().st_mode & 0o077 == 0


def test_finding_an_engine_needs_neither_torch_nor_a_web_server() -> None:
    names = ["torch", "transformers", "starlette", "uvicorn", "pygls"]
    code = f"import sys, speculation.serving.process; print([name for name in {names} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# The commands


def run(*arguments: str, exit_code: int = 0) -> str:
    result = CliRunner().invoke(engine_command, arguments)
    assert result.exit_code == exit_code, result.output
    return result.output


def test_without_an_engine_stop_is_content_and_status_is_not() -> None:
    assert run("stop") == "no engine is running\n"
    assert run("status", exit_code=3) == "no engine is running\n"
    assert json.loads(run("status", "--json", exit_code=3)) == {"status": "not running"}


def test_status_says_what_runs_and_where() -> None:
    engine = FakeEngine()
    engine.trouble = "the database was set aside"
    with running(engine, tcp_port=0) as endpoint:
        facts = json.loads(run("status", "--json"))
        assert (facts["status"], facts["model"], facts["pid"]) == ("ok", "fake/model", os.getpid())
        assert (facts["socket"], facts["tcp"]) == (endpoint.socket, f"http://127.0.0.1:{endpoint.port}/v1")
        assert Path(facts["token_path"]).read_text() == endpoint.token
        text = run("status")
        for fact in ("fake/model", str(os.getpid()), str(endpoint.socket), "float32", "set aside", "engine.log"):
            assert fact in text


def test_start_finds_the_engine_that_runs_and_stop_ends_it() -> None:
    endpoint = start()
    assert json.loads(run("start", "--json"))["pid"] == endpoint.pid
    assert run("stop") == "engine stopped\n"
    wait_for(lambda: is_gone(endpoint))


def test_start_says_when_the_engine_that_runs_has_another_dtype() -> None:
    with running(FakeEngine()):
        assert "has dtype float32; for int8 stop it first: stet engine stop" in run("start", "--dtype", "int8")
        for dtype in ("auto", "float32"):
            assert "stop it first" not in run("start", "--dtype", dtype)
