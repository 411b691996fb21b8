"""Python 3.14 from Debian's packages, for a Debian that has none.

`python -m tests.support.environments.debian_python` makes it.

apt resolves, verifies and fetches the packages of another release into a directory of our own: nothing is installed.
Their own loader runs them with their own C library, so the system's stays as it is, and neither root nor a chroot is
needed: it reads the same files, network and processes as every other interpreter.
"""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from tests.support.java.driver import MAVEN_TIMEOUT_S, TARGET

VERSION = "3.14"
RELEASE = "sid"
PACKAGES = (f"python{VERSION}", "libstdc++6")  # wheels of C++ take the latter from the system
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
KEPT = ("usr/bin", "usr/lib", "usr/lib64")
WRAPPER = f"""#!/bin/sh
bin=$(dirname "$(readlink -f "$0")")
lib=$(echo "$bin"/../lib/*-linux-gnu*)
exec "$lib"/ld-linux-*.so.* --library-path "$lib" --argv0 "$0" "$bin/python{VERSION}.elf" "$@"
"""


class NotToBeHad(Exception):
    """Debian's Python cannot be fetched here. The message says why."""


def debian_python(directory: Path = TARGET / f"python{VERSION}") -> str:
    """The interpreter, fetched into `directory` (60 MB) unless an earlier run left it there. Raises NotToBeHad."""
    if missing := [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]:
        raise NotToBeHad(f"fetching Debian's needs {', '.join(missing)}")
    if not KEYS.exists():
        raise NotToBeHad(f"fetching Debian's needs {KEYS}, of the package debian-archive-keyring")
    directory.mkdir(parents=True, exist_ok=True)
    tree = directory / "tree"
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test workers may arrive here at once
        if not tree.exists():
            fetched = directory / "fetched"
            shutil.rmtree(fetched, ignore_errors=True)
            try:
                _make(fetched).rename(tree)
            finally:
                shutil.rmtree(fetched, ignore_errors=True)
    return str(tree / "usr" / "bin" / f"python{VERSION}")


def _make(fetched: Path) -> Path:
    """Packages, unpacked below `fetched`, with a wrapper in the place of the interpreter."""
    root = fetched / "root"
    for package in _download(fetched):
        _run("dpkg-deb", "--extract", package, root)
    for path in (*root.iterdir(), *(root / "usr").iterdir()):
        if not any(kept.startswith(str(path.relative_to(root))) for kept in KEPT):
            shutil.rmtree(path)
    python = root / "usr" / "bin" / f"python{VERSION}"
    python.rename(f"{python}.elf")
    python.write_text(WRAPPER)
    python.chmod(0o755)
    return root


def _download(fetched: Path) -> list[Path]:
    """The packages and what they depend on, by an apt that knows nothing of what is installed here."""
    archives = fetched / "cache" / "archives"
    for directory in (fetched / "lists", archives):
        (directory / "partial").mkdir(parents=True)
    (fetched / "status").touch()
    # no other index: desktops have apt fetch icons
    (fetched / "sources.list").write_text(f"deb [target=Packages signed-by={KEYS}] {_mirror()} {RELEASE} main\n")
    settings = {
        "Dir::Etc::SourceList": fetched / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State": fetched,
        "Dir::State::status": fetched / "status",
        "Dir::Cache": fetched / "cache",
        "APT::Sandbox::User": "root",  # _apt may not write here
        "APT::Install-Recommends": "false",
        "Acquire::Languages": "none",
        "Acquire::Retries": 2,
        "Acquire::http::Timeout": 30,
        "Acquire::https::Timeout": 30,
    }
    apt = ("apt-get", "-qq", *(f"--option={name}={value}" for name, value in settings.items()))
    _run(*apt, "--error-on=any", "update")
    _run(*apt, "--yes", "--download-only", "install", *PACKAGES)
    return sorted(archives.glob("*.deb"))


def _mirror() -> str:
    """The mirror of Debian that this machine's apt uses."""
    used = _run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").split()
    mirrors = [address for address in used if address.rstrip("/").endswith("/debian")]
    if not mirrors:
        raise NotToBeHad("apt uses no mirror of Debian here")
    return mirrors[0]


def _run(*command: str | Path) -> str:
    """The output of a command. NotToBeHad has its last line if it fails."""
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise NotToBeHad(f"{command[0]} did not end within {MAVEN_TIMEOUT_S} s") from error
    if done.returncode:
        raise NotToBeHad(f"{command[0]}: {' '.join((done.stderr or done.stdout).splitlines()[-1:])}")
    return done.stdout


if __name__ == "__main__":
    print(debian_python())
