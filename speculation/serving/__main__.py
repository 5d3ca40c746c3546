"""`python -m speculation.serving`: the program that process.start runs."""

from speculation.serving.command import serve

if __name__ == "__main__":
    serve(prog_name="stet engine serve")
