"""Simulated disks behind the calls of `os` that a bookie's storage makes.

A write is durable once its file was synced (files.py), a name once its directory was. A power loss keeps what is
durable and a random part of the rest. A killed process loses nothing that the system has.
"""

import errno
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

from tests.sim.system.files import SimFile
from tests.sim.system.loop import Killed, Process, SimLoop

CAPACITY = 1 << 30
_BOOT = "/proc/sys/kernel/random/boot_id"


class NameChange(NamedTuple):
    """A file got a name, or (None) a name was removed. With `rename` it is one change with the one before."""

    directory: str
    path: str
    file: SimFile | None
    rename: bool = False


@dataclass(eq=False)
class SimDisk:
    """One host's disk: names, directories and databases."""

    host: str
    rng: Random
    capacity: int = CAPACITY
    names: dict[str, SimFile] = field(default_factory=dict)
    durable_names: dict[str, SimFile] = field(default_factory=dict)
    pending_names: list[NameChange] = field(default_factory=list)
    directories: set[str] = field(default_factory=set)
    databases: dict[str, dict[str, dict[bytes, bytes]]] = field(default_factory=dict)
    locks: dict[str, Process] = field(default_factory=dict)
    fuse: int | None = None
    """After so many changes the process that makes them dies."""
    failing_syncs: int = 0
    """So many syncs fail, from now on."""
    on_fuse: Callable[[], None] | None = None
    failing_batches: int = 0
    """So many batches of a database fail, from now on."""
    went_bad: bool = False
    """Whether an error of this disk may explain that a bookie ends."""
    unmounted: int = 0
    """How many times files were hidden and are not shown again."""
    _used: int | None = None
    """Bytes in use, unless a size or a name has changed since they were counted."""

    @property
    def used(self) -> int:
        """Bytes in use."""
        if self._used is None:
            self._used = sum([file.size for file in self.names.values()])
        return self._used

    def resized(self) -> None:
        """A file has another size than before."""
        self._used = None

    def tick(self) -> None:
        """A change is about to be made; Killed when it is the process's last."""
        if self.fuse is None:
            return
        self.fuse -= 1
        if self.fuse <= 0:
            self.fuse = None
            if self.on_fuse is not None:
                self.on_fuse()
            raise Killed

    def take_room(self, size: int) -> None:
        """Make a file longer by `size` bytes. OSError, ENOSPC when they do not fit."""
        if size > 0:
            if self.used + size > self.capacity:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._used = None

    def name(self, directory: str, path: str, file: SimFile | None, *, rename: bool = False) -> None:
        """Give a file a name, or remove the name; durable when the directory is synced, and with it its `rename`."""
        if file is None:
            self.names.pop(path, None)
        else:
            self.names[path] = file
        self._used = None
        self.pending_names.append(NameChange(directory, path, file, rename))

    def sync_directory(self, directory: str) -> None:
        """Make the names in a directory durable."""
        left = []
        for change in self.pending_names:
            if change.directory == directory:
                self._apply(change)
            else:
                left.append(change)
        self.pending_names = left

    def unmount(self, directory: str) -> dict[str, SimFile]:
        """Hide the files of a directory, as if its disk were not mounted; what was hidden."""
        self.unmounted += 1
        hidden = {path: file for path, file in self.names.items() if path.startswith(directory + "/")}
        self._used = None
        for path in hidden:
            del self.names[path]
            self.durable_names.pop(path, None)
        self.pending_names = [each for each in self.pending_names if each.directory != directory]
        return hidden

    def mount(self, hidden: dict[str, SimFile]) -> None:
        """Show hidden files again."""
        self.unmounted -= 1
        self._used = None
        self.names.update(hidden)
        self.durable_names.update(hidden)

    def wipe(self) -> None:
        """Replace the disk with an empty one."""
        for kept in (self.names, self.durable_names, self.pending_names, self.databases, self.locks):
            kept.clear()
        self.directories = {f"/{self.host}"}
        self._used = None

    def lose_power(self) -> None:
        """Keep what is durable and a random part of what is not: changes of names in their order, renames whole."""
        for file in {id(file): file for file in (*self.names.values(), *self.durable_names.values())}.values():
            file.lose_power(self.rng)
        kept = self.rng.randint(0, len(self.pending_names))
        if kept < len(self.pending_names) and self.pending_names[kept].rename:
            kept += 1
        for change in self.pending_names[:kept]:
            self._apply(change)
        self.pending_names.clear()
        self.names = dict(self.durable_names)
        self._used = None

    def _apply(self, change: NameChange) -> None:
        if change.file is None:
            self.durable_names.pop(change.path, None)
        else:
            self.durable_names[change.path] = change.file


def _directory(path: str) -> str:
    """The directory of an absolute path."""
    return path[: path.rfind("/")] or "/"


class _TextFile(io.StringIO):
    """A text file that is being written."""

    def __init__(self, system: "SimSystem", descriptor: int) -> None:
        super().__init__()
        self._system, self._descriptor, self._written = system, descriptor, 0

    def flush(self) -> None:
        data = self.getvalue().encode()
        if self._written < len(data):
            self._system.pwrite(self._descriptor, data[self._written :], self._written)
            self._written = len(data)

    def fileno(self) -> int:
        return self._descriptor

    def __exit__(self, *error: object) -> None:
        self.flush()
        self._system.close(self._descriptor)


class SimSystem:
    """What storage modules know as `os`: files by path, below `/HOST/`. Names that are not simulated are missing."""

    O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_EXCL
    O_DIRECT, O_DIRECTORY, O_TRUNC = getattr(os, "O_DIRECT", 0), os.O_DIRECTORY, os.O_TRUNC
    RWF_NOWAIT, POSIX_FADV_DONTNEED = 8, 4
    sep = "/"
    strerror = staticmethod(os.strerror)

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.disks: dict[str, SimDisk] = {}
        self._open: dict[int, tuple[str, SimFile | None, Process]] = {}
        self._next = 1000
        self._of_path: dict[str, SimDisk] = {}
        self.path = SimpleNamespace(
            join=lambda directory, name: name if name[:1] == "/" else f"{directory}/{name}",
            abspath=os.path.abspath,
            basename=os.path.basename,
            dirname=_directory,
            exists=self._exists,
            isdir=lambda path: path in self._disk(path).directories,
        )

    def add_disk(self, host: str) -> SimDisk:
        """A new disk of a host."""
        disk = self.disks[host] = SimDisk(host, Random(f"{self._loop.seed}/disk/{host}"))
        disk.directories.add(f"/{host}")
        return disk

    def _disk(self, path: str) -> SimDisk:
        if not self._loop.current.alive:
            raise Killed
        disk = self._of_path.get(path)
        if disk is None:
            disk = self._of_path[path] = self.disks[path.split("/", 2)[1]]
        return disk

    def _exists(self, path: str) -> bool:
        disk = self._disk(path)
        return path in disk.names or path in disk.directories

    def _of(self, descriptor: int) -> tuple[SimDisk, SimFile]:
        path, file, _ = self._open[descriptor]
        if file is None:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return self._disk(path), file

    # Files

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        """As os.open."""
        path = str(path)
        disk = self._disk(path)
        file = disk.names.get(path)
        if path in disk.directories:
            file = None
        elif file is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            disk.tick()
            file = SimFile()
            disk.name(_directory(path), path, file)
        elif flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        elif flags & os.O_TRUNC:
            disk.tick()
            file.data, file.size = bytearray(), 0
            disk.resized()
            file.durable, file.pending = bytearray(), []
        self._next += 1
        self._open[self._next] = path, file, self._loop.current
        return self._next

    def open_text(self, path: Any, mode: str = "r", **_: Any) -> Any:
        """As the built-in open, for small text files."""
        if "w" in mode:
            descriptor = self.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            return _TextFile(self, descriptor)
        if path == _BOOT:
            return io.StringIO("the machine of all hosts")
        disk = self._disk(str(path))
        file = disk.names.get(str(path))
        if file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return io.StringIO(file.read(0, file.size).decode(errors="replace"))

    def close(self, descriptor: int) -> None:
        """As os.close."""
        self._open.pop(descriptor, None)

    def pwritev(self, descriptor: int, buffers: Any, offset: int) -> int:
        """As os.pwritev."""
        return self.pwrite(descriptor, b"".join(buffers), offset)

    def pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        """As os.pwrite."""
        disk, file = self._of(descriptor)
        disk.tick()
        copy = bytes(data)
        disk.take_room(offset + len(copy) - file.size)
        file.write(offset, copy)
        return len(copy)

    def pread(self, descriptor: int, length: int, offset: int) -> bytes:
        """As os.pread."""
        _, file = self._of(descriptor)
        if file.bad:
            self._of(descriptor)[0].went_bad = True
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return file.read(offset, length)

    def preadv(self, descriptor: int, buffers: Any, offset: int, flags: int = 0) -> int:
        """As os.preadv, for one buffer."""
        (buffer,) = buffers
        data = self.pread(descriptor, len(buffer), offset)
        buffer[: len(data)] = data
        return len(data)

    def fdatasync(self, descriptor: int) -> None:
        """As os.fdatasync."""
        self.fsync(descriptor)

    def fsync(self, descriptor: int) -> None:
        """As os.fsync, of a file or a directory."""
        path, file, _ = self._open[descriptor]
        disk = self._disk(path)
        disk.tick()
        if file is None:
            disk.sync_directory(path)
        elif disk.failing_syncs and file.pending:
            disk.failing_syncs -= 1
            disk.went_bad = True
            file.drop_unsynced()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        else:
            file.sync()

    def posix_fallocate(self, descriptor: int, offset: int, length: int) -> None:
        """As os.posix_fallocate."""
        disk, file = self._of(descriptor)
        disk.tick()
        disk.take_room(offset + length - file.size)
        file.size = max(file.size, offset + length)

    def posix_fadvise(self, descriptor: int, offset: int, length: int, advice: int) -> None:
        """Drop clean pages: what is read next comes from the disk."""
        _, file = self._of(descriptor)
        if not file.pending:
            file.data = bytearray(file.durable)

    def lseek(self, descriptor: int, position: int, whence: int) -> int:
        """The end of a file."""
        _, file = self._of(descriptor)
        return file.size

    # Names

    def stat(self, path: Any) -> Any:
        """As os.stat: size and device."""
        path = str(path)
        disk = self._disk(path)
        file = disk.names.get(path)
        if file is None and path not in disk.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return SimpleNamespace(st_size=0 if file is None else file.size, st_dev=disk.host)

    def fstat(self, descriptor: int) -> Any:
        """As os.fstat: the size of a file; what names a directory."""
        path, file, _ = self._open[descriptor]
        if file is None:
            return SimpleNamespace(st_dev=self._disk(path).host, st_ino=path)
        return SimpleNamespace(st_size=file.size)

    def statvfs(self, path: Any) -> Any:
        """As os.statvfs."""
        disk = self._disk(str(path))
        free = max(0, disk.capacity - disk.used)
        return SimpleNamespace(f_bavail=free, f_frsize=1, f_blocks=disk.capacity, f_files=0)

    def listdir(self, path: Any) -> list[str]:
        """As os.listdir."""
        disk, prefix = self._disk(str(path)), f"{path}/"
        below = [name for names in (disk.names, disk.directories) for name in names if name.startswith(prefix)]
        at = len(prefix)
        return sorted({name[at:].split("/", 1)[0] for name in below})

    def makedirs(self, path: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
        """As os.makedirs; directories are durable at once."""
        disk, parts = self._disk(str(path)), str(path).split("/")
        for end in range(2, len(parts) + 1):
            disk.directories.add("/".join(parts[:end]))

    def rename(self, old: Any, new: Any) -> None:
        """As os.rename, within one directory."""
        disk = self._disk(str(old))
        disk.tick()
        file = disk.names.get(str(old))
        if file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(old))
        disk.name(_directory(str(new)), str(new), file)
        disk.name(_directory(str(old)), str(old), None, rename=True)

    def unlink(self, path: Any) -> None:
        """As os.unlink."""
        disk = self._disk(str(path))
        disk.tick()
        if str(path) not in disk.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        disk.name(_directory(str(path)), str(path), None)

    def lock(self, descriptor: int) -> None:
        """As flock: one living process at a time."""
        path, _, process = self._open[descriptor]
        locks = self._disk(path).locks
        holder = locks.get(path)
        if holder is not None and holder is not process and holder.alive:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))
        locks[path] = process

    def _exit(self, code: int) -> None:
        """End the simulated process."""
        self._loop.kill(self._loop.current)
        raise Killed

    def getpid(self) -> int:
        """Any number."""
        return 1
