"""One module a command: its parser, and what it asks and shows."""
