"""Which of the compiler's files are kept, and how they are packed."""

import contextlib
import io
import os
import re
import tarfile

COMPRESSION = 1
"""Of xz: level 1 takes a tenth of the time of level 6 and makes the archive a quarter larger."""

KEPT = re.compile(r"-final_bundles\.txt$|-post-bundle-packing-post-ra\.txt$|TLP-hlo\.txt$|-deduplication-map\.txt$")
LISTING = re.compile(r"-\d+-final_bundles\.txt$")


def is_kept(name):
    """True for the files that tpusim reads: final bundles, allocations, constants, the deduplication map."""
    return bool(KEPT.search(name)) and "schedule-analysis" not in name


def drop_unneeded_listings(dump):
    """Deletes what is not kept while the compiler still writes: a large model prints gigabytes."""
    for entry in os.scandir(dump):
        if not is_kept(entry.name):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


def empty(dump):
    """Deletes every file of a dump."""
    for entry in os.scandir(dump):
        with contextlib.suppress(OSError):
            os.unlink(entry.path)


def shortened(text):
    """The lines of a post-bundle-packing listing that tpusim reads: allocations, regions, operands."""
    kept = []
    for line in text.splitlines(keepends=True):
        if "#allocation" in line and "[shape" in line or "region" in line or "inlined_call_operand" in line:
            kept.append(line)
    return "".join(kept)


def pack_listings(dump, archive, prefix):
    """Packs the kept files of `dump` into a .tar.xz whose bytes depend only on theirs; returns how many listings."""
    listings = 0
    with tarfile.open(archive, "w:xz", preset=COMPRESSION, format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(os.listdir(dump)):
            if not is_kept(name):
                continue
            listings += bool(LISTING.search(name))
            with open(os.path.join(dump, name), encoding="utf-8", errors="replace") as file:
                text = file.read()
            if name.endswith("-post-bundle-packing-post-ra.txt"):
                text = shortened(text)
            data = text.encode()
            info = tarfile.TarInfo(f"{prefix}/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return listings
