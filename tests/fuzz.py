"""Malformed JSON for the fuzz tests: a seeded generator, so that a failure comes again with the seed that it prints."""

import copy
import random
from collections.abc import Iterator
from typing import Any

Path = tuple[Any, ...]

WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**31,
    -(2**63),
    10**300,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    "\0",
    "x" * 20_000,
    [],
    [None],
    [[[[]]]],
    {},
    {"a": {"b": []}},
    [0] * 5_000,
    "file://[",
    "<|im_end|>",
)


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def paths(value: Any, prefix: Path = ()) -> Iterator[Path]:
    """Every place in a JSON value but its root."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*prefix, key)
        yield from paths(item, (*prefix, key))


def mutated(rng: random.Random, value: Any) -> Any:
    """A copy with one to three places made wrong: another type, gone, wrapped, or with something beside it."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        places = list(paths(value))
        if not places:
            return value
        *way, last = rng.choice(places)
        parent = value
        for key in way:
            parent = parent[key]
        match rng.randrange(6):
            case 0:
                del parent[last]
            case 1:
                parent[last] = [parent[last]]
            case 2 if isinstance(parent, dict):
                parent[rng.choice(["jsonrpc", "method", "id", "extra"])] = copy.deepcopy(rng.choice(WRONG))
            case 3:
                parent[last] = nested(rng.randint(1, 200))
            case _:
                parent[last] = copy.deepcopy(rng.choice(WRONG))
    return value


def peak_mb(pid: int) -> int:
    """The most memory that a process has held."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024
