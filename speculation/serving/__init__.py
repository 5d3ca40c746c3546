"""The engine process: an OpenAI-compatible server that owns one Engine and is shared by all of a user's editors.

process finds, starts and stops it and imports neither torch nor starlette; server, app, schema and worker run in it.
"""
