"""Weights in 8 and 4 bits by torch's own kernels, which GPUs and CPUs have: for a target that would not fit otherwise.

Knows modules; no folders, devices or settings.
"""

import torch
from torch.nn import functional

from speculation.errors import ModelError
from speculation.models.packed import TINY, Packed

INT8_MAX = 127
N_ROWS_STEP, N_OUT_STEP = 32, 16
"""cuBLASLt takes int8 products of more than 16 rows, and of outputs by the 8 or 16."""
N_CHUNK = 1 << 11
"""Rows of weights that are rounded at once: in float32 a vocabulary's take gigabytes."""
GROUP = 32
"""Weights that share a scale and a zero."""
INT4_MAX, INT4_ZERO = 15, 8
N_IN_STEP, N_TILES = 128, 8
"""The GPU's kernel takes inputs by the 128, as so many tiles of 16."""
N_OUT_STEP_INT4 = 32
"""What kernels of all devices take."""


class Int8(Packed):
    """A linear layer with int8 weights per output channel and int8 activations per token: [..., n_in] to [..., n_out].

    What comes out for a token doesn't depend on the others in the pass. Raises ModelError for weights that are no
    numbers.
    """

    form = "int8"
    itemsize = 1

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__(weight, bias)
        self._n_out, self._is_cpu = len(weight), weight.device.type == "cpu"
        weight = functional.pad(weight, (0, 0, 0, -len(weight) % N_OUT_STEP))
        scales = _largest(weight, "int8") / INT8_MAX  # [n_out, 1]
        chunks = zip(weight.split(N_CHUNK), scales.split(N_CHUNK), strict=True)
        rounded = torch.cat([(rows / scale).round().to(torch.int8) for rows, scale in chunks])
        # Attributes, no buffers: nobody may cast them with the rest of the model.
        self._weight = rounded.t()  # [n_in, n_out], its columns contiguous
        self._scales = scales[: self._n_out, 0]
        self._bias = None if bias is None else bias.float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.reshape(-1, x.shape[-1]).float()
        scales = torch.linalg.vector_norm(tokens, torch.inf, dim=1, keepdim=True).clamp_min(TINY) / INT8_MAX
        rounded = (tokens / scales).round().to(torch.int8)
        if not self._is_cpu:
            rounded = functional.pad(rounded, (0, 0, 0, -len(rounded) % N_ROWS_STEP))
        sums = torch._int_mm(rounded, self._weight)[: len(tokens), : self._n_out]
        y = sums * scales
        y = y * self._scales if self._bias is None else torch.addcmul(self._bias, y, self._scales)
        return y.to(x.dtype).view(*x.shape[:-1], -1)


class Int4(Packed):
    """A linear layer with 4-bit weights, a scale and a zero for each 32 of them: [..., n_in] to [..., n_out].

    Activations become bfloat16, for which alone there are fast kernels. Raises ModelError for weights that are no
    numbers, and for inputs or outputs that the kernels don't take.
    """

    form = "int4"
    itemsize = 0.5 + 2 * 2 / GROUP

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__(weight, bias)
        n_out, n_in = weight.shape
        if n_in % N_IN_STEP or n_out % N_OUT_STEP_INT4:
            raise ModelError(
                f"int4 weights need inputs by the {N_IN_STEP} and outputs by the {N_OUT_STEP_INT4}, "
                f"not {n_in} to {n_out}; use another dtype"
            )
        _largest(weight, "int4")
        self._is_cpu = weight.device.type == "cpu"
        chunks, grids = zip(*map(self._rounded, weight.split(N_CHUNK)), strict=True)
        self._packed, self._grid = torch.cat(chunks), torch.cat(grids, dim=1)
        self._bias = None if bias is None else bias.float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        multiply = torch._weight_int4pack_mm_for_cpu if self._is_cpu else torch._weight_int4pack_mm
        y = multiply(x.reshape(-1, x.shape[-1]).bfloat16(), self._packed, GROUP, self._grid)
        y = y if self._bias is None else y + self._bias
        return y.to(x.dtype).view(*x.shape[:-1], -1)

    def _rounded(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Some rows as the kernel takes them, and their scales and zeros [n_groups, n_out, 2]."""
        groups = weight.float().view(len(weight), -1, GROUP)
        low, high = groups.aminmax(dim=2, keepdim=True)
        scales = ((high - low) / INT4_MAX).clamp_min(TINY)
        # Rounded to the kernel's numbers first: the weights are rounded to what it makes of them.
        grid = torch.cat([scales, low + INT4_ZERO * scales], dim=2).bfloat16()  # [n_out, n_groups, 2]
        scales, zeros = grid.float().split(1, dim=2)
        rounded = ((groups - zeros) / scales + INT4_ZERO).round().clamp(0, INT4_MAX).int().view(len(weight), -1)
        if self._is_cpu:
            packed = torch._convert_weight_to_int4pack_for_cpu(rounded, 1)
        else:
            packed = torch._convert_weight_to_int4pack(
                (rounded[:, ::2] << 4 | rounded[:, 1::2]).to(torch.uint8), N_TILES
            )
        return packed, grid.transpose(0, 1)


def _largest(weight: torch.Tensor, form: str) -> torch.Tensor:
    """The largest weight of each row, [n_out, 1] in float32. Raises ModelError for what is no number."""
    largest = torch.linalg.vector_norm(weight, torch.inf, dim=1, keepdim=True).float().clamp_min(TINY)
    if not largest.isfinite().all():
        raise ModelError(f"some of its weights are no finite numbers, so that it can't be had in {form}")
    return largest
