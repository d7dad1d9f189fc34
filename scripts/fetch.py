#!/usr/bin/env python3
"""Fetches what the build and the tests stand on: pinned, verified, unpacked in one atomic step.

    scripts/fetch.py GROUP...     fetch groups: deps, models, lint, dist, test, clients, cuda, peers
    scripts/fetch.py --relock     write files, sizes and hashes anew for the versions in deps.lock

Single files are pinned in scripts/deps.lock; sets of Python packages, in scripts/SET-requirements.txt; packages for
Node, in tests/clients/npm/package-lock.json.

Files come through pip and npm, so their configuration (index, proxies, certificates) is the user's own. A file that
stands in the folder TROUPE_WHEELS is used instead of a download by pip. Nothing that is fetched here is ever executed
here.
"""

import argparse
import configparser
import contextlib
import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from archives import FetchError, discard, replace, sha256, staging_path, unpack, verify

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "scripts" / "deps.lock"
DEPS = ROOT / ".deps"

# Set -> its group, where its requirements are installed, and what to call them.
PYTHON_SETS = {
    "test": ("test", DEPS / "test" / "python", "the Python packages of the tests"),
    "clients": ("clients", DEPS / "test" / "clients", "the clients of the tests"),
    "llama-index": ("clients", DEPS / "test" / "llama-index", "llama-index"),
    "cuda": ("cuda", DEPS / "mlx-cuda", "MLX for CUDA and NVIDIA's libraries (3 GB unpacked)"),
    "peers": ("peers", DEPS / "peers" / "python", "mlx-lm and MLX for the comparison of servers"),
}

# The manifest and lock of the packages for Node, and where they are installed with group "clients".
NODE_SET = ROOT / "tests" / "clients" / "npm"
NODE_TARGET = DEPS / "test" / "npm"

# The build backends that the source archives in deps.lock name, each with a module `build`.
BUILD_BACKENDS = ("hatchling", "scikit_build_core")

# The tags under which a wheel may be published for a platform of ours; only --relock needs to guess them.
PLATFORM_TAGS = {
    "linux-x86_64": ["manylinux_2_%d_x86_64" % minor for minor in range(35, 16, -1)] + ["manylinux2014_x86_64"],
    "linux-aarch64": ["manylinux_2_%d_aarch64" % minor for minor in range(35, 16, -1)] + ["manylinux2014_aarch64"],
    "macos-arm64": ["macosx_15_0_arm64"],
    "any": ["any"],
}


# ---------------------------------------------------------------- the lock file


class Package:
    """One section of deps.lock, seen from one platform."""

    def __init__(self, name, section, here):
        self.name = name
        self.project = section.get("project", name)
        self.version = section["version"]
        self.group = section["group"]
        self.unless = section.get("unless")
        self.unpack = [tuple(part.strip() for part in line.split("->")) for line in lines(section["unpack"])]
        self.checks = [line.split() for line in lines(section.get("check", ""))]
        self.platforms = [key for key in section if key in PLATFORM_TAGS]
        key = here if here in section else "any"
        self.file, size, self.sha256 = section[key].split() if key in section else (None, "0", None)
        self.size = int(size)

    def __str__(self):
        return "%s %s" % (self.name, self.version)

    def targets(self):
        """The paths in the work tree that this package fills, each replaced whole."""
        return [ROOT / target for _, target in self.unpack]

    def stamp(self):
        return DEPS / ".stamps" / self.name

    def key(self):
        return "%s %s\n" % (self.sha256, self.unpack)

    def is_current(self):
        stamp = self.stamp()
        return stamp.is_file() and stamp.read_text() == self.key() and all(path.exists() for path in self.targets())


def lines(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def this_platform():
    system = {"Linux": "linux", "Darwin": "macos"}.get(platform.system(), platform.system().lower())
    return "%s-%s" % (system, platform.machine().lower().replace("amd64", "x86_64"))


def read_lock(here):
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str
    parser.read_string(LOCK.read_text())
    return [Package(name, parser[name], here) for name in parser.sections()]


# ---------------------------------------------------------------- one package


def fetch(package, here):
    """Downloads, verifies and unpacks one package unless it is there already."""
    if package.unless and os.environ.get(package.unless):
        return
    if package.file is None:
        if here in PLATFORM_TAGS:
            return
        way_out = "; set %s to your own" % package.unless if package.unless else ""
        raise FetchError("%s is not published for %s%s" % (package, here, way_out))
    if package.is_current():
        return
    refuse_older_system(package)
    print("fetching %s (%s)" % (package, human(package.size)), flush=True)
    package.stamp().unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=DEPS) as folder:
        archive = obtain(package, Path(folder))
        verify(archive, package.sha256, "%s (%s)" % (package.file, package))
        install(package, archive)
    package.stamp().parent.mkdir(parents=True, exist_ok=True)
    package.stamp().write_text(package.key())


def refuse_older_system(package):
    """A wheel's name states the oldest C library or macOS that its code runs on."""
    libc, have = platform.libc_ver()
    need = re.search(r"manylinux_(\d+)_(\d+)", package.file)
    what = "glibc"
    if platform.system() == "Darwin":
        have, need, what = platform.mac_ver()[0], re.search(r"macosx_(\d+)_(\d+)", package.file), "macOS"
    elif libc != "glibc":
        have = "0.0"
    if need and tuple(map(int, have.split(".")[:2])) < (int(need[1]), int(need[2])):
        way_out = "; build it yourself and set %s" % package.unless if package.unless else ""
        raise FetchError("%s needs %s %s.%s or newer%s" % (package, what, need[1], need[2], way_out))


def obtain(package, folder):
    """The archive's path: in TROUPE_WHEELS when it stands there, else downloaded by pip into `folder`."""
    by_hand = os.environ.get("TROUPE_WHEELS")
    if by_hand and (Path(by_hand) / package.file).is_file():
        return Path(by_hand) / package.file
    download(package.project, package.version, wheel_tags(package.file), folder)
    found = [path for path in folder.iterdir() if path.is_file()]
    if [path.name for path in found] != [package.file]:
        names = ", ".join(path.name for path in found) or "nothing"
        raise FetchError("expected %s, and pip brought %s" % (package.file, names))
    return found[0]


def wheel_tags(file):
    """The platform tags in a wheel's name, or None for a source archive."""
    return file[: -len(".whl")].split("-")[-1].split(".") if file.endswith(".whl") else None


def download(name, version, tags, folder):
    """Runs `pip download` for one file. `tags` are a wheel's platforms; None asks for the source archive."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    environment = dict(os.environ)
    if tags is None:
        command += ["--no-binary=:all:", "--no-build-isolation"]
        backend = str(metadata_only_backend(name, version, folder))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [backend, environment.get("PYTHONPATH")]))
    else:
        command += ["--only-binary=:all:", "--python-version=3.12"]
        command += ["--platform=" + tag for tag in tags]
    run_pip(command + ["%s==%s" % (name, version)], environment, "%s %s" % (name, version))


def metadata_only_backend(name, version, folder):
    """pip insists on a source archive's metadata, and would run its build to learn name and version. This stands in
    for the build: it answers those two, so that nothing is compiled and no code of the archive runs."""
    backend = folder / "backend"
    for name_of_backend in BUILD_BACKENDS:
        module = backend / name_of_backend
        module.mkdir(parents=True)
        (module / "__init__.py").touch()
        (module / "build.py").write_text(
            "import pathlib\n"
            "def get_requires_for_build_wheel(settings=None):\n"
            "    return []\n"
            "def prepare_metadata_for_build_wheel(folder, settings=None):\n"
            "    info = pathlib.Path(folder) / '%s-%s.dist-info'\n"
            "    info.mkdir()\n"
            "    (info / 'METADATA').write_text('Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n')\n"
            "    return info.name\n" % (name.replace("-", "_"), version, name, version)
        )
    return backend


def run_pip(command, environment, what):
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode == 0:
        return
    errors = lines(result.stdout)
    reason = next((line for line in reversed(errors) if line.startswith("ERROR:")), errors[-1] if errors else "")
    raise FetchError(
        "pip could not fetch %s: %s\n"
        "check the network, `pip config list` and the proxy variables; offline, put the files that scripts/deps.lock\n"
        "and scripts/*-requirements.txt name into a folder and set TROUPE_WHEELS to it" % (what, reason.replace("ERROR: ", ""))
    )


# ---------------------------------------------------------------- unpacking


def install(package, archive):
    """Unpacks beside the final places, checks, and only then moves each new path over the old one."""
    moves = []
    for source, target in package.unpack:
        staged = staging_path(ROOT / target)
        unpack(archive, source, staged)
        moves.append((staged, ROOT / target))
    for target, expected in package.checks:
        verify(staging_path(ROOT / target), expected, target)
    for staged, final in moves:
        replace(staged, final)


# ---------------------------------------------------------------- sets of Python packages


def fetch_python_set(name):
    """Installs a set's requirements into a folder of their own, for PYTHONPATH or a library path."""
    _, target, what = PYTHON_SETS[name]
    requirements = ROOT / "scripts" / (name + "-requirements.txt")
    stamp = DEPS / ".stamps" / (name + "-requirements")
    key = "%s %s\n" % (sha256(requirements), platform.python_version())
    if stamp.is_file() and stamp.read_text() == key and target.is_dir():
        return
    if sys.version_info < (3, 10):
        raise FetchError("%s need Python 3.10 or newer: make PYTHON=... picks another" % what)
    print("fetching " + what, flush=True)
    stamp.unlink(missing_ok=True)
    staged = staging_path(target)
    discard(staged)
    staged.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--no-compile"]
    command += ["--no-user", "--require-hashes", "--target", str(staged), "--requirement", str(requirements)]
    if os.environ.get("TROUPE_WHEELS"):
        command += ["--find-links", os.environ["TROUPE_WHEELS"]]
    run_pip(command, dict(os.environ), "what %s lists" % requirements.relative_to(ROOT))
    replace(staged, target)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(key)


# ---------------------------------------------------------------- packages for Node


def fetch_node_set():
    """Installs what the lock of tests/clients/npm names; npm compares each package with the hash that stands there."""
    stamp = DEPS / ".stamps" / "npm"
    key = "%s\n" % sha256(NODE_SET / "package-lock.json")
    if stamp.is_file() and stamp.read_text() == key and NODE_TARGET.is_dir():
        return
    for tool in ["node", "npm"]:
        if shutil.which(tool) is None:
            raise FetchError("the tests run clients for Node, version 20 or newer, and there is no %s here" % tool)
    print("fetching the clients of the tests for Node", flush=True)
    stamp.unlink(missing_ok=True)
    staged = staging_path(NODE_TARGET)
    discard(staged)
    shutil.copytree(NODE_SET, staged, ignore=shutil.ignore_patterns("node_modules"))
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    result = subprocess.run(command, cwd=staged, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        errors = [line for line in lines(result.stdout) if "ERR" in line or "error" in line]
        raise FetchError("npm could not fetch what tests/clients/npm lists: %s" % "; ".join(errors[:3]))
    replace(staged, NODE_TARGET)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(key)


# ---------------------------------------------------------------- relock


def relock():
    """Downloads each package for each of its platforms and writes what came into deps.lock."""
    text = LOCK.read_text()
    for package in read_lock(this_platform()):
        for key in package.platforms:
            with tempfile.TemporaryDirectory(prefix=".download-", dir=DEPS) as folder:
                is_source = key == "any" and (package.file or "").endswith(".tar.gz")
                download(package.project, package.version, None if is_source else PLATFORM_TAGS[key], Path(folder))
                (path,) = [path for path in Path(folder).iterdir() if path.is_file()]
                entry = "%s = %s %d %s" % (key, path.name, path.stat().st_size, sha256(path))
            print(package.name, entry, flush=True)
            section = re.search(r"^\[%s\]$.*?(?=^\[|\Z)" % re.escape(package.name), text, re.M | re.S)
            fresh = re.sub(r"^%s = .*$" % re.escape(key), entry, section[0], flags=re.M)
            text = text[: section.start()] + fresh + text[section.end() :]
            LOCK.write_text(text)


# ---------------------------------------------------------------- command line


def human(size):
    return "%.1f MB" % (size / 1e6) if size >= 1e6 else "%.0f kB" % (size / 1e3)


@contextlib.contextmanager
def only_one():
    """Two fetches at once (make -j, two terminals) would write the same paths: the second waits."""
    DEPS.mkdir(exist_ok=True)
    with open(DEPS / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left_over in DEPS.glob(".download-*"):
            discard(left_over)
        yield


def main():
    parser = argparse.ArgumentParser(description="fetch what the build and the tests stand on")
    names = "deps, models, lint, dist, test, clients, cuda or peers"
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=names)
    parser.add_argument("--relock", action="store_true", help="write files, sizes and hashes of deps.lock anew")
    arguments = parser.parse_args()
    here = this_platform()
    packages = read_lock(here)
    python_groups = {group for group, _, _ in PYTHON_SETS.values()}
    unknown = set(arguments.groups) - {package.group for package in packages} - python_groups
    if unknown:
        parser.error("no such group: %s" % ", ".join(sorted(unknown)))
    with only_one():
        if arguments.relock:
            relock()
        for package in packages:
            if package.group in arguments.groups:
                fetch(package, here)
        for name, (group, _, _) in PYTHON_SETS.items():
            if group in arguments.groups:
                fetch_python_set(name)
        if "clients" in arguments.groups:
            fetch_node_set()


if __name__ == "__main__":
    try:
        main()
    except FetchError as error:
        sys.exit("error: %s" % error)
    except KeyboardInterrupt:
        sys.exit(130)
