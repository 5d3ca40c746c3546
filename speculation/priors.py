"""Shipped priors: alpha by draft source and match-length bucket, for a store that knows nothing yet. Values only.

The copying sources were counted on the commits of public git repositories, both cost models pooled:
`stet bench priors git_*.jsonl`. "lm" is a guess until the store has counts.
"""

BUCKET_EDGES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192)
"""A bucket reaches from its edge up to the next one, in matching tokens before the drafted one."""

PRIORS: dict[str, tuple[float, ...]] = {
    "copy": (
        0.9605,
        0.8806,
        0.8943,
        0.9166,
        0.9286,
        0.9421,
        0.9631,
        0.9718,
        0.9856,
        0.9885,
        0.9931,
        0.9963,
        0.9968,
        0.996,
        0.9973,
        0.9983,
    ),
    "realign": (
        0.0417,
        0.4575,
        0.6825,
        0.8226,
        0.8683,
        0.9156,
        0.9293,
        0.9511,
        0.9777,
        0.986,
        0.99,
        0.9939,
        0.994,
        0.9943,
        0.9996,
        0.9996,
    ),
    "suffix": (
        0.5,
        0.2931,
        0.4676,
        0.6052,
        0.7554,
        0.8477,
        0.8861,
        0.9419,
        0.9697,
        0.9837,
        0.9902,
        0.993,
        0.994,
        0.9943,
        0.9963,
        0.9975,
    ),
    "checked": (0.997,) * len(BUCKET_EDGES),
    "lm": (0.998, 0.99, 0.98, 0.96, 0.93, 0.9, 0.87, 0.82, 0.76, 0.68, 0.6, 0.5, 0.42, 0.35, 0.3, 0.25),
}
