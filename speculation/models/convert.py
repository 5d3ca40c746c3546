"""GGUF to safetensors and a tokenizer, once: parsing a GGUF takes a minute, loading safetensors seconds.

Knows what transformers leaves wrong in a tokenizer and a generation config that come out of a GGUF. Knows neither a
model's source nor its place.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    TOKENIZER_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GgufConfig,
    modeling_gguf_pytorch_utils,
)
from transformers.utils import logging as transformers_logging

from speculation.errors import FetchError, ModelError, first_line

END_TOKENS = ("<|im_end|>", "<|endoftext|>")
ODD_TEXT = (
    "\tif a:\r\n\t\treturn 'n\u0303\u00f1 \U0001f469\u200d\U0001f680'   \r\n\n\n    [ 1 , 2 ] . \u4e2d\u6587 don't ?  "
)


def convert(gguf: Path, out: Path, special_ids: tuple[tuple[str, int], ...] = ()) -> Path:
    """Write gguf's weights in bfloat16, its tokenizer and its configs into the folder out, anew. Raises ModelError."""
    shutil.rmtree(out, ignore_errors=True)
    _check_magic(gguf)
    with quiet(), _clear_errors(gguf):
        tokenizer, model = _read(gguf)
    _mend_tokenizer(tokenizer, model.config.max_position_embeddings)
    _check_tokenizer(tokenizer, special_ids, gguf)
    _mend_generation_config(model.generation_config, tokenizer)
    try:
        with quiet():
            model.save_pretrained(out)
            tokenizer.save_pretrained(out)
    except (SafetensorError, OSError) as error:
        raise FetchError(f"the converted weights could not be written to {out}: {error}") from None
    return out


def _read(gguf: Path) -> tuple[Any, Any]:
    place = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name, "local_files_only": True}
    # Each of transformers' Auto classes would parse the whole file once more to learn the config: 10 s each.
    config: Any = AutoConfig.from_pretrained(**place)
    tokenizer = TOKENIZER_MAPPING.get(type(config), AutoTokenizer).from_pretrained(**place)
    model = AutoModelForCausalLM.from_pretrained(
        **place, config=config, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    return tokenizer, model


def _check_magic(gguf: Path) -> None:
    with gguf.open("rb") as file:
        if (magic := file.read(4)) != b"GGUF":
            raise ModelError(f"{gguf} is no GGUF file: it begins with {magic!r}")


def _mend_tokenizer(tokenizer: Any, context: int) -> None:
    # A GGUF doesn't say it; without it transformers believes in a context of 10^30 tokens.
    tokenizer.model_max_length = context
    tokenizer.clean_up_tokenization_spaces = False


def _check_tokenizer(tokenizer: Any, special_ids: tuple[tuple[str, int], ...], gguf: Path) -> None:
    for token, wanted in special_ids:
        if (got := tokenizer.encode(token, add_special_tokens=False)) != [wanted]:
            raise ModelError(f"{gguf}: wanted the token {token} to be {wanted}, got {got}")
    if special_ids and not tokenizer.chat_template:
        raise ModelError(f"{gguf} has no chat template")
    back = tokenizer.decode(tokenizer.encode(ODD_TEXT, add_special_tokens=False))
    if special_ids and back != ODD_TEXT:
        raise ModelError(f"{gguf}: its tokenizer changes text: {ODD_TEXT!r} came back as {back!r}")


def _mend_generation_config(config: Any, tokenizer: Any) -> None:
    # A GGUF names one end token only; a chat model of the Qwen family ends with either.
    known = tokenizer.get_added_vocab()
    ends = [config.eos_token_id, *(known.get(token) for token in END_TOKENS)]
    config.eos_token_id = list(dict.fromkeys(end for end in ends if end is not None))


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' own bars and warnings off the terminal: the caller shows progress."""
    bar = modeling_gguf_pytorch_utils.tqdm
    # This one bar doesn't obey disable_progress_bar.
    modeling_gguf_pytorch_utils.tqdm = partial(bar, disable=True)
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        modeling_gguf_pytorch_utils.tqdm = bar
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


@contextmanager
def _clear_errors(gguf: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # A cut or damaged file fails in as many ways as there are bytes (ValueError, struct.error, KeyError, ...).
        reason = first_line(error)
        raise ModelError(
            f"{gguf} can't be read; it is damaged, cut short or of a kind not supported: {reason}"
        ) from error
