"""The copying sources of a request, for the engine and the benchmarks alike."""

from collections.abc import Sequence

from speculation.drafters.chain import Drafter
from speculation.drafters.copy import CopyDrafter
from speculation.drafters.shifted import Codec, ShiftedDrafter
from speculation.drafters.suffix import SuffixDrafter


def copiers(source: Sequence[int], prompt: Sequence[int], codec: Codec) -> tuple[Drafter, ...]:
    """One of each kind, at the start of an answer to prompt in which source is likely to reappear."""
    return CopyDrafter(source, codec.line_ends), SuffixDrafter(prompt), ShiftedDrafter(source, codec)
