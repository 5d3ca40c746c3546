"""`python -m lsp_server` is `stet lsp`, for editors that know an interpreter but no PATH."""

from lsp_server.cli import lsp

if __name__ == "__main__":
    lsp()
