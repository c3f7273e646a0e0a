"""The commands: `pagedviz app`, `run`, `inspect`, `check`, `schedule`."""

from pagedviz.cli.main import main

__all__ = ["main"]
