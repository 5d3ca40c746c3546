"""Requests: what is understood, and that nothing else gets through."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speculation.serving.schema import ChatRequest, RequestError, parse
from speculation.types import Sampling

HI = [{"role": "user", "content": "hi"}]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
SAMPLING_FIELDS = ["temperature", "top_p", "seed", "repetition_penalty", "max_tokens", "max_completion_tokens", "stop"]
FIELDS = [
    *SAMPLING_FIELDS,
    "model",
    "messages",
    "stream",
    "stream_options",
    "prediction",
    "n",
    "tools",
    "logprobs",
    "stet",
]


def check(fields: dict[str, object], **wanted: object) -> None:
    """The request, with a message where it has none, has these values."""
    request = parse(json.dumps({"messages": HI, **fields}).encode())
    assert {name: getattr(request, name) for name in wanted} == wanted


def check_refused(fields: dict[str, object], param: str, *words: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse(json.dumps({"messages": HI, **fields}).encode())
    assert caught.value.param == param
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_bare_request_is_greedy_drafted_and_as_long_as_the_context_allows() -> None:
    assert parse(b'{"messages": [{"role": "user", "content": "hi"}]}') == ChatRequest(
        messages=({"role": "user", "content": "hi"},)
    )


def test_null_is_the_default() -> None:
    check(dict.fromkeys(set(FIELDS) - {"messages"}), max_tokens=None, stop=(), source="", is_drafted=True, model="")


def test_every_field_arrives() -> None:
    check({"stream": True, "stream_options": {"include_usage": True}}, is_streamed=True, has_usage=True)
    check({"max_tokens": 5}, max_tokens=5)
    check({"max_tokens": 5, "max_completion_tokens": 7}, max_tokens=7)
    check({"stop": "a"}, stop=("a",))
    check({"stop": ["a", "b"]}, stop=("a", "b"))
    check({"prediction": {"type": "content", "content": "x\n"}}, source="x\n")
    check({"prediction": {"type": "content", "content": [{"type": "text", "text": "x"}]}}, source="x")
    check({"stet": {"file_type": "python", "draft": False}}, file_type="python", is_drafted=False)
    check({"stet": {"prefill_only": True}}, is_prefill=True)
    request = parse(
        json.dumps({"messages": HI, "temperature": 1, "top_p": 0.5, "seed": -3, "stet": {"top_k": 4}}).encode()
    )
    assert (request.sampling.temperature, request.sampling.top_p) == (1.0, 0.5)
    assert (request.sampling.seed, request.sampling.top_k) == (-3, 4)
    check({}, sampling=Sampling(repetition_penalty=1.0))
    check({"repetition_penalty": 1.25}, sampling=Sampling(repetition_penalty=1.25))


def test_unknown_fields_are_ignored() -> None:
    check({"user": "me", "service_tier": "auto", "stet": {"later": 1}}, file_type="")


def test_a_wrong_field_is_named_with_what_was_wanted() -> None:
    check_refused({"messages": []}, "messages", "at least one")
    check_refused({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", "assistant", "robot")
    check_refused({"messages": [*HI, {"role": "user"}]}, "messages[1].content", "text", "null")
    check_refused({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content", "text")
    check_refused({"temperature": -1}, "temperature", "0 to 100", "-1")
    check_refused({"temperature": "hot"}, "temperature", "number", "hot")
    check_refused({"top_p": 0}, "top_p")
    check_refused({"repetition_penalty": 0}, "repetition_penalty", "above 0", "0")
    check_refused({"repetition_penalty": "1.1"}, "repetition_penalty", "number", "1.1")
    check_refused({"stet": {"top_k": -1}}, "stet.top_k")
    check_refused({"stet": []}, "stet", "an object")
    check_refused({"stet": {"draft": "no"}}, "stet.draft", "true or false")
    check_refused({"seed": 2**64}, "seed", "64-bit")
    check_refused({"max_tokens": 0}, "max_tokens", "from 1")
    check_refused({"max_tokens": True}, "max_tokens", "whole number")
    check_refused({"stop": ["a", ""]}, "stop")
    check_refused({"stop": list("abcde")}, "stop", "up to 4")
    check_refused({"prediction": "x"}, "prediction", "content")
    check_refused({"n": 2}, "n")
    check_refused({"tools": [{}]}, "tools", "not supported")
    check_refused({"logprobs": True}, "logprobs")
    check_refused({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content", "surrogate")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"messages": NaN}', b"\xff\xfe", b"[" * 100_000, b'{"seed": ' + b"9" * 10_000 + b"}"],
    ids=["empty", "cut", "list", "null", "nan", "not-utf8", "deep", "long-number"],
)
def test_what_is_no_json_object_is_refused_in_one_line(body: bytes) -> None:
    with pytest.raises(RequestError, match="JSON") as caught:
        parse(body)
    assert len(str(caught.value)) < 300


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_json_is_understood_or_refused(fields: dict[str, object]) -> None:
    try:
        request = parse(json.dumps({"messages": HI, **fields}).encode())
    except RequestError as error:
        assert len(str(error)) < 300
    else:
        assert request.messages


@given(st.binary(max_size=200))
def test_any_bytes_are_understood_or_refused(body: bytes) -> None:
    try:
        parse(body)
    except RequestError as error:
        assert str(error)
