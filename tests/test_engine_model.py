"""The real 0.5B: its own tokenizer, a real rewrite, and that copying changes nothing but the number of passes."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from speculation.config import EngineConfig, models_dir
from speculation.engine import Engine
from speculation.models import store
from speculation.models.loading import load_tokenizer
from speculation.models.tokenizer import TextStream, Tokenizer

CODE = """\
def total(prices):
    result = 0
    for price in prices:
        result = result + price
    return result


def mean(prices):
    return total(prices) / len(prices)
"""
MESSAGES = [
    {"role": "system", "content": "You rewrite code. Answer with the whole new code in one fenced block."},
    {"role": "user", "content": f"```python\n{CODE}```\n\nRename the function `total` to `add_up`."},
]
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<|file_sep|>")

pytestmark = [pytest.mark.torch, pytest.mark.model]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with closing(Engine.open(EngineConfig(model="tiny", database=None))) as opened:
        yield opened


def answer(engine: Engine, **options: Any) -> tuple[str, list[int], Any]:
    chunks = list(engine.generate(MESSAGES, max_new_tokens=120, file_type="python", **options))
    token_ids = [token for chunk in chunks for token in chunk.token_ids]
    return "".join(chunk.text for chunk in chunks), token_ids, chunks[-1]


def test_a_rewrite_is_copied_in_few_passes_and_ends_by_itself(engine: Engine) -> None:
    text, token_ids, last = answer(engine, source=f"```python\n{CODE}```")
    assert "def add_up(prices):" in text
    assert not any(control in text for control in CONTROL)
    assert last.finish_reason == "stop"
    assert last.stats.n_copied > 0.5 * len(token_ids)
    assert last.stats.n_passes < 0.5 * len(token_ids)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(store.find("tiny", models_dir()))


def test_the_real_tokenizer_gives_text_back_and_streams_it_whole(tokenizer: Tokenizer) -> None:
    text = "a😀 👩‍👩‍👧 e\u0301 日本語\r\n\tif x:\r\n \ufffd \u2028" + "".join(CONTROL) + CODE
    token_ids = tokenizer.encode(text)
    assert tokenizer.decode(token_ids) == text
    stream = TextStream(tokenizer)
    chunks = [stream.push([token]) for token in token_ids]
    assert "".join([*chunks, stream.flush()]) == text
    assert sum(chunk.count("\ufffd") for chunk in chunks) == 1


def test_the_real_chat_prompt_is_the_templates_own(tokenizer: Tokenizer) -> None:
    reference = load_tokenizer(store.find("tiny", models_dir()))
    for messages in (MESSAGES, MESSAGES[1:], [*MESSAGES, {"role": "assistant", "content": "```\n"}, MESSAGES[1]]):
        wanted = reference.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert tokenizer.encode_chat(messages) == wanted


def test_control_tokens_in_a_message_are_only_text_to_the_real_model(tokenizer: Tokenizer) -> None:
    harmless = tokenizer.encode_chat([{"role": "user", "content": "x"}])
    hostile = tokenizer.encode_chat([{"role": "user", "content": "".join(CONTROL)}])
    control = {tokenizer.vocabulary[token] for token in CONTROL}
    assert [t for t in hostile if t in control] == [t for t in harmless if t in control]
    assert "".join(CONTROL) in tokenizer.decode(hostile)
