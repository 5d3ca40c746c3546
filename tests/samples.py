"""Texts that several tests rewrite parts of."""

from lsp_server.documents import Snapshot

CODE = "import os\n\n\nclass A:\n    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n"
JS = """\
const a = 1;

function f() {
  if (a) {
    g();
  } else {
    h();
  }
}

// About k.
function k() {
  return 1;
}
"""


def snapshot(text: str = CODE, language: str = "python") -> Snapshot:
    return Snapshot("file:///a.py", 1, text, language)
