#!/usr/bin/env python3
"""Makes dist/troupe-VERSION-OS-ARCH.tar.gz from the release build: the program, the libraries that it runs on, and
the licences of all that is inside. It runs wherever it is unpacked:

    bin/troupe            looks in ../lib/mlx/lib and ../lib
    lib/mlx/lib/          MLX, which itself looks in ../../mlx_cpu.libs
    lib/                  the other libraries
    LICENSE, THIRD_PARTY/
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from fetch import DEPS, ROOT, this_platform

PROGRAM = ROOT / "target" / "release" / "troupe"
DIST = ROOT / "dist"
PATCHELF = DEPS / "patchelf" / "patchelf"
SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")


def main():
    version = next(package["version"] for package in metadata()["packages"] if package["name"] == "troupe")
    name = "troupe-%s-%s" % (version, this_platform())
    DIST.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".staging-", dir=DIST) as folder:
        tree = Path(folder) / name
        copy_file(PROGRAM, tree / "bin" / "troupe")
        copy_libraries(tree)
        copy_licences(tree)
        archive = Path(folder) / (name + ".tar.gz")
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(tree, arcname=name)
        check(archive, name)
        os.replace(archive, DIST / archive.name)
    print("dist/%s (%.1f MB)" % (archive.name, (DIST / archive.name).stat().st_size / 1e6))


def metadata():
    output = subprocess.check_output(["cargo", "metadata", "--locked", "--format-version", "1"], cwd=ROOT)
    return json.loads(output)


def copy_file(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)


# ---------------------------------------------------------------- libraries


def copy_libraries(tree):
    if platform.system() == "Darwin":
        for path in sorted((mlx_dir() / "lib").iterdir()):
            if path.suffix in (".dylib", ".metallib"):
                copy_file(path, tree / "lib" / "mlx" / "lib" / path.name)
        return
    for library in linked_libraries(PROGRAM):
        copy_file(library, tree / "lib" / place_of(library))
    for path in [tree / "bin" / "troupe", *(tree / "lib").glob("*.so")]:
        here = "$ORIGIN/../lib" if path.parent.name == "bin" else "$ORIGIN"
        subprocess.check_call([PATCHELF, "--set-rpath", "%s/mlx/lib:%s" % (here, here), path])


def mlx_dir():
    return Path(os.environ.get("MLX_DIR") or DEPS / "mlx")


def linked_libraries(program):
    """The real paths of the shared libraries that the program loads and that are not the system's."""
    output = subprocess.check_output(["ldd", program], universal_newlines=True)
    missing = re.findall(r"^\s*(\S+) => not found", output, re.M)
    if missing:
        sys.exit("error: %s does not find %s" % (program.relative_to(ROOT), ", ".join(missing)))
    found = re.findall(r"=> (/\S+) \(0x", output)
    return [Path(path) for path in found if not path.startswith(SYSTEM)]


def place_of(library):
    """MLX and the folder that it looks in keep their places to each other; the rest lies side by side."""
    if library.name.startswith("libmlx."):
        return Path("mlx") / "lib" / library.name
    parent = library.resolve().parent.name
    return Path(parent) / library.name if parent.endswith(".libs") else Path(library.name)


# ---------------------------------------------------------------- licences


def copy_licences(tree):
    shutil.copyfile(ROOT / "LICENSE", tree / "LICENSE")
    shutil.copytree(DEPS / "licenses", tree / "THIRD_PARTY")
    texts = {}
    for package in shipped_crates():
        for path in sorted(Path(package["manifest_path"]).parent.iterdir()):
            if path.is_file() and re.match(r"(licen[cs]e|copying|notice|unlicense)", path.name, re.I):
                text = path.read_text(errors="replace").strip()
                texts.setdefault(text, set()).add("%s %s" % (package["name"], package["version"]))
    with open(tree / "THIRD_PARTY" / "rust-crates.txt", "w") as file:
        file.write("Rust crates in this program, with the licence that each states:\n\n")
        for package in shipped_crates():
            file.write("%s %s: %s\n" % (package["name"], package["version"], package["license"] or "see its text"))
        for text, crates in sorted(texts.items(), key=lambda item: sorted(item[1])):
            file.write("\n%s\n%s\n\n%s\n" % ("=" * 80, "\n".join(sorted(crates)), text))


def shipped_crates():
    """The packages of others that end up in the program: no tests, no build scripts."""
    command = ["cargo", "tree", "--locked", "--package", "troupe", "--edges", "normal", "--prefix", "none"]
    listed = subprocess.check_output(command, cwd=ROOT, universal_newlines=True)
    names = set(re.findall(r"^(\S+) v(\S+)", listed, re.M))
    packages = [package for package in metadata()["packages"] if package["source"]]
    return [package for package in packages if (package["name"], package["version"]) in names]


# ---------------------------------------------------------------- proof


def check(archive, name):
    """Unpacks the archive elsewhere and runs the program with nothing but what is in it and the system."""
    with tempfile.TemporaryDirectory(prefix="troupe-dist-") as folder:
        shutil.unpack_archive(archive, folder)
        home = Path(folder).resolve() / name
        program = home / "bin" / "troupe"
        subprocess.check_output([program, "--version"], env={}, cwd="/")
        if platform.system() == "Darwin":
            return
        strangers = [path for path in linked_libraries(program) if home not in path.resolve().parents]
        if strangers:
            sys.exit("error: the packed program loads %s" % ", ".join(map(str, strangers)))


if __name__ == "__main__":
    main()
