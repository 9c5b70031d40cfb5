"""Fetches pgbouncer for the tests that run behind a pooler, unless the machine has it.

    python tools/fetch_pgbouncer.py FOLDER

Takes the packages from the archive of the machine's own Debian or Ubuntu and unpacks them into FOLDER. Nothing is
installed: that would need root, and the package would start a service of its own. `tests/support/pooler.py` finds it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

PACKAGE: Final = "pgbouncer"
TIMEOUT_SECONDS: Final = 120
_LIBRARY: Final = re.compile(r"^\s*Depends: (lib(?!c6)[a-z0-9.+-]+)$", re.MULTILINE)


def is_installed() -> bool:
    """Say whether the machine has pgbouncer. Its folder is often missing in the path of users that are not root."""
    return shutil.which(PACKAGE) is not None or Path("/usr/sbin/pgbouncer").exists()


def fetch(target: Path) -> None:
    """Download pgbouncer and the libraries it names, and unpack them. Raise OSError or SubprocessError on failure."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="recollect-pgbouncer-") as name:
        folder = Path(name)
        for part in ("lists/partial", "archives/partial"):
            (folder / part).mkdir(parents=True)
        own = ["-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}", "-o", "Debug::NoLocking=1"]
        own += ["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=2"]  # no other user may enter the folder
        _run(["apt-get", *own, "-qq", "update"], folder)
        libraries = _LIBRARY.findall(_run(["apt-cache", *own, "depends", PACKAGE], folder))
        _run(["apt-get", *own, "-qq", "download", PACKAGE, *libraries], folder)
        for archive in sorted(folder.glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(archive), str(target)], folder)


def _run(command: list[str], folder: Path) -> str:
    """Run a command in a folder and return what it prints."""
    done = subprocess.run(  # noqa: S603 - commands of our own
        command, cwd=folder, check=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    return done.stdout


def main() -> int:
    """Fetch pgbouncer if it is missing. Return 1 if that failed, and say why."""
    if is_installed():
        return 0
    print("Fetching pgbouncer for the tests behind a pooler …")  # noqa: T201
    try:
        fetch(Path(sys.argv[1]).resolve())
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        print(f"pgbouncer cannot be fetched, so tests behind a pooler are skipped: {reason.strip()}")  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
