"""The command line's commands, one file each.

A command is a module with `run(args)`; the first line of its docstring is its help. Modules
are light to import: what is heavy is imported inside `run`.
"""
