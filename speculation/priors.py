"""Shipped priors: alpha by draft source and match-length bucket, for a store that knows nothing yet. Values only.

"copy", "realign" and "suffix" are acceptance rates counted by `stet bench replay` on the commits of public git
repositories (the git_* task files), both cost models pooled. "lm" is a guess until the store has counts.
"""

BUCKET_EDGES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192)
"""A bucket reaches from its edge up to the next one, in matching tokens before the drafted one."""

PRIORS: dict[str, tuple[float, ...]] = {
    "copy": (
        0.987,
        0.873,
        0.908,
        0.919,
        0.925,
        0.952,
        0.967,
        0.976,
        0.986,
        0.989,
        0.993,
        0.996,
        0.997,
        0.996,
        0.997,
        0.998,
    ),
    "realign": (
        0.041,
        0.474,
        0.687,
        0.827,
        0.874,
        0.911,
        0.935,
        0.950,
        0.979,
        0.985,
        0.990,
        0.994,
        0.994,
        0.995,
        0.996,
        0.996,
    ),
    "suffix": (
        0.050,
        0.292,
        0.469,
        0.607,
        0.755,
        0.847,
        0.880,
        0.941,
        0.965,
        0.981,
        0.990,
        0.993,
        0.994,
        0.994,
        0.996,
        0.997,
    ),
    "lm": (0.85,) * len(BUCKET_EDGES),
}
