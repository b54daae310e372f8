"""The daemon of sess: it keeps an index of coding-agent sessions fresh and answers over a socket."""

__version__ = "0.1.0"
