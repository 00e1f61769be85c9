"""What was compiled once is not compiled again: results by a hash of the program, the options and the versions."""

import functools
import hashlib
import os
import shutil
import tempfile

LARGEST_BYTES = 2 << 30
"""The cache drops what was used longest ago beyond this."""


def default_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "tpusim", "capture")


@functools.lru_cache
def own_text():
    """This tool's own text: another way to pack or to compute is another result."""
    folder = os.path.dirname(os.path.abspath(__file__))
    texts = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as file:
                texts.append(file.read())
    return b"".join(texts)


def key_of(*parts):
    """A name for a result that depends on all of `parts` (text or bytes)."""
    digest = hashlib.sha256()
    for part in (own_text(), *parts):
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(str(len(data)).encode() + b":" + data)
    return digest.hexdigest()


class Cache:
    """Folders of files by key; several captures may use it at once. Without a folder it holds nothing."""

    def __init__(self, folder):
        self.folder = folder

    def fetch(self, key, destination):
        """Copies the files kept under `key` into a folder; False when there are none."""
        entry = self._entry(key)
        if entry is None or not os.path.isdir(entry):
            return False
        try:
            for name in os.listdir(entry):
                shutil.copyfile(os.path.join(entry, name), os.path.join(destination, name))
            os.utime(entry)
        except OSError:  # dropped or damaged meanwhile
            return False
        return True

    def store(self, key, files):
        """Keeps copies of these files; a cache that can't be written is none."""
        entry = self._entry(key)
        if entry is None:
            return
        try:
            os.makedirs(self.folder, exist_ok=True)
            unfinished = tempfile.mkdtemp(prefix=".new_", dir=self.folder)
            try:
                for path in files:
                    shutil.copyfile(path, os.path.join(unfinished, os.path.basename(path)))
                os.rename(unfinished, entry)
            except OSError:  # another capture was first, or the disk is full
                shutil.rmtree(unfinished, ignore_errors=True)
            self._drop_oldest()
        except OSError:
            return

    def _entry(self, key):
        return os.path.join(self.folder, key) if self.folder else None

    def _drop_oldest(self):
        entries = []
        for entry in os.scandir(self.folder):
            size = sum(file.stat().st_size for file in os.scandir(entry.path)) if entry.is_dir() else 0
            entries.append((entry.stat().st_mtime, size, entry.path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= LARGEST_BYTES:
                return
            shutil.rmtree(path, ignore_errors=True)
            total -= size
