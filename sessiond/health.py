"""What only the daemon knows of its own health, for ``sess doctor``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import apsw

from sessiond.schema import SCHEMA_VERSION, check

if TYPE_CHECKING:
    from sessiond.config import Config
    from sessiond.indexer import Indexer


def examine(indexer: Indexer, config: Config, index_path: str) -> dict[str, Any]:
    """Return what there is to know but for what ``status`` tells. Reads the whole index."""
    import importlib.metadata  # 16 % of what the daemon's imports took at its start

    return {
        "versions": {
            "python": sys.version.split()[0],
            "sqlite": apsw.sqlite_lib_version(),
            "apsw": apsw.apsw_version(),
            "watchdog": importlib.metadata.version("watchdog"),
        },
        "executable": sys.executable,
        "schema": SCHEMA_VERSION,
        "integrity": check(index_path),
        "rebuilt": indexer.rebuilt,
        "trouble": indexer.trouble,
        "queue": indexer.queued(),
        "slowest": [
            {"app": unit.app, "ms": round(seconds * 1000, 1), "bytes": read, "path": unit.path}
            for seconds, read, unit in indexer.slowest
        ],
        "config": config.as_json(),
        "limits": _limits(),
    }


def _limits() -> dict[str, int]:
    """Return the kernel's limits for inotify, by the name that sysctl(8) has for each; nothing where there are none."""
    found = {}
    for name in ("max_user_watches", "max_user_instances", "max_queued_events"):
        try:
            with open(f"/proc/sys/fs/inotify/{name}", encoding="ascii") as file:
                found[f"fs.inotify.{name}"] = int(file.read())
        except (OSError, ValueError):
            continue
    return found
