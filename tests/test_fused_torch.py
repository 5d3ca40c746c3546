"""A fused layer computes what transformers' own does, in half the operations."""

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from speculation.models import fused, loading
from speculation.models.cached_lm import CachedLM

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

N_VOCAB = 64
TEXT = [(i * i + 3 * i) % N_VOCAB for i in range(60)]
VIEWS = (
    "view",
    "slice",
    "transpose",
    "expand",
    "split",
    "aten.t.",
    "unsqueeze",
    "select",
    "detach",
    "alias",
    "permute",
)


@pytest.mark.parametrize("config", [{}, {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}])
def test_a_fused_layer_computes_what_transformers_own_does(config: Any) -> None:
    plain, few = (tiny.model(N_VOCAB, **config) for _ in range(2))
    fused.fuse(few)
    assert {type(layer) for layer in few.model.layers} == {fused.FusedLayer}
    lms = [CachedLM(model, 1 << 20) for model in (plain, few)]
    for text, continuation in ((TEXT[:20], []), (TEXT[:30], TEXT[:7]), (TEXT[:28], []), (TEXT, TEXT[:1])):
        wanted, got = (lm.logits(text, continuation) for lm in lms)
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_a_fused_layer_knows_padding() -> None:
    plain, few = (tiny.model(N_VOCAB) for _ in range(2))
    fused.fuse(few)
    mask = torch.ones(2, 30, dtype=torch.long)
    mask[1, :9] = 0
    wanted, got = (model(torch.tensor([TEXT[:30]] * 2), attention_mask=mask).logits for model in (plain, few))
    torch.testing.assert_close(got[mask == 1], wanted[mask == 1], rtol=1e-4, atol=1e-4)


class Launches(TorchDispatchMode):
    """Counts the operations that a GPU would be given: all but views."""

    n = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n += not any(view in str(func) for view in VIEWS)
        return func(*args, **(kwargs or {}))


def test_it_takes_half_the_operations() -> None:
    n_launches = []
    for fuse in (False, True):
        model = tiny.model(N_VOCAB, num_hidden_layers=8)
        if fuse:
            fused.fuse(model)
        lm = CachedLM(model, 1 << 20)
        lm.logits(TEXT[:20], [])
        with Launches() as launches:
            lm.logits(TEXT[:20], TEXT[20:23])
        n_launches.append(launches.n)
    assert n_launches[1] < 0.55 * n_launches[0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_loaded_model_is_fused_with_the_weights_of_the_file(tmp_path: Path, dtype: str) -> None:
    model = loading.load_model(Path(tiny.save(tmp_path)), "cpu", dtype)
    assert {type(layer) for layer in model.model.layers} == {fused.FusedLayer}
    assert {weight.dtype for weight in model.parameters()} == {getattr(torch, dtype)}
    assert not any(weight.requires_grad for weight in model.parameters())
