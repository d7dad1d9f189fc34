"""Files and archives: compared with their hashes, unpacked beside their places and moved there in one step."""

import hashlib
import os
import re
import shutil
import tarfile
import zipfile


class FetchError(Exception):
    """A failure that the person at the terminal can act on; the message says how."""


def verify(path, expected, what):
    got = sha256(path)
    if got != expected:
        raise FetchError("%s has the wrong sha256\n  expected %s\n  got      %s" % (what, expected, got))


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def staging_path(final):
    return final.parent / (".new-" + final.name)


def replace(staged, final):
    discard(final)
    os.rename(staged, final)


def discard(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def unpack(archive, source, staged):
    """Writes the archive's members at or below `source` (a glob for one path prefix) to `staged`."""
    discard(staged)
    prefix = re.compile("[^/]*".join(map(re.escape, source.split("*"))))
    count = 0
    for name, mode, copy_to in members(archive):
        match = prefix.match(name)
        if not match or name.endswith("/"):
            continue
        path = staged / name[match.end() :] if source.endswith("/") else staged
        if ".." in path.parts:
            raise FetchError("%s holds the unsafe path %s" % (archive.name, name))
        path.parent.mkdir(parents=True, exist_ok=True)
        copy_to(path)
        path.chmod(0o755 if mode & 0o100 else 0o644)
        count += 1
    if count == 0:
        raise FetchError("%s holds no %s" % (archive.name, source))


def members(archive):
    """Yields (name, mode, copy_to) for each regular file of a zip or tar archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for info in wheel.infolist():
                yield info.filename, info.external_attr >> 16, lambda path, info=info: copy(wheel.open(info), path)
    else:
        with tarfile.open(archive) as tar:
            for info in tar:
                if info.isfile():
                    yield info.name, info.mode, lambda path, info=info: copy(tar.extractfile(info), path)


def copy(reader, path):
    with reader, open(path, "wb") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
