"""Everything that needs torch or transformers, and the weights on disk."""

import os

# Before torch loads its OpenMP: threads that wait spin for a moment only. By default they spin so long that a second
# busy process (a compiler, a language server) makes a pass up to twenty times slower: see docs/experiments.md.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
