"""Fetches and builds what Troupe is measured beside. All of it lies under .deps/peers/."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from archives import discard, replace, staging_path
from fetch import DEPS, ROOT

PEERS = DEPS / "peers"
PYTHON_PATH = PEERS / "python"
LLAMA_SOURCE = PEERS / "llama.cpp"
LLAMA_BUILD = PEERS / "llama.cpp-build"
LLAMA_BIN = LLAMA_BUILD / "bin"
LLAMA_TARGETS = ["llama-bench", "llama-server", "llama-quantize"]
MODELS = PEERS / "models"
HERE = Path(__file__).resolve().parent

BUILD_LIMIT_S = 3600
CONVERT_LIMIT_S = 600


class Failure(Exception):
    """Why a peer, or one of its numbers, is missing."""


def run(command, limit_s, environment=None):
    """The command's standard output. Ends it after `limit_s`."""
    name = " ".join([Path(str(command[0])).name, *(word for word in command[1:2] if str(word).isalpha())])
    try:
        done = subprocess.run(
            [str(word) for word in command],
            env={**os.environ, **(environment or {})},
            cwd=ROOT,
            timeout=limit_s,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise Failure("%s took more than %d s" % (name, limit_s)) from None
    except OSError as error:
        raise Failure("%s: %s" % (name, error.strerror)) from None
    if done.returncode != 0:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise Failure("%s ended with status %d: %s" % (name, done.returncode, said[-1].strip() if said else "no word"))
    return done.stdout


def fetch_peers():
    run([sys.executable, ROOT / "scripts" / "fetch.py", "peers"], BUILD_LIMIT_S)


def build_llama_cpp(jobs):
    """Static programs for this machine's instructions, without the parts that a comparison does not use."""
    if not LLAMA_SOURCE.is_dir():
        raise Failure("its source was not fetched")
    cmake = os.environ.get("CMAKE") or DEPS / "cmake" / "bin" / "cmake"
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_MAKE_PROGRAM": DEPS / "ninja" / "ninja",
        "BUILD_SHARED_LIBS": "OFF",
        "GGML_NATIVE": "ON",
        "GGML_METAL": "OFF",
        "LLAMA_BUILD_APP": "OFF",
        "LLAMA_BUILD_EXAMPLES": "OFF",
        "LLAMA_BUILD_TESTS": "OFF",
        "LLAMA_CURL": "OFF",
        "LLAMA_OPENSSL": "OFF",
        "LLAMA_USE_PREBUILT_UI": "OFF",
    }
    definitions = ["-D%s=%s" % option for option in options.items()]
    run([cmake, "-S", LLAMA_SOURCE, "-B", LLAMA_BUILD, "-G", "Ninja", *definitions], BUILD_LIMIT_S)
    run([cmake, "--build", LLAMA_BUILD, "-j", jobs, "--target", *LLAMA_TARGETS], BUILD_LIMIT_S)


def python_environment():
    """For programs that use the peers' packages; gguf comes from llama.cpp's own source."""
    return {"PYTHONPATH": os.pathsep.join([str(PYTHON_PATH), str(LLAMA_SOURCE / "gguf-py")]), "HF_HUB_OFFLINE": "1"}


def f16_folder(model):
    """The model's weights in f16, as a Hugging Face folder."""
    folder = MODELS / (model.stem + "-f16")
    make(folder, model, HERE / "f16_folder.py", lambda new: [sys.executable, HERE / "f16_folder.py", model, new])
    return folder


def f16_gguf(model):
    """The same as one GGUF file."""
    file = MODELS / (model.stem + "-f16.gguf")
    quantize = LLAMA_BIN / "llama-quantize"
    make(file, model, quantize, lambda new: [quantize, "--allow-requantize", model, new, "F16"])
    return file


def make(target, source, program, command):
    """Runs the command unless its target is newer than what it is made of and by."""
    if not program.is_file():
        raise Failure("%s is missing" % program.name)
    if target.exists() and target.stat().st_mtime > max(source.stat().st_mtime, program.stat().st_mtime):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = staging_path(target)
    discard(staged)
    run(command(staged), CONVERT_LIMIT_S, python_environment())
    replace(staged, target)


def memory_reader():
    """The program that measures the speed of memory."""
    source, program = HERE / "memory_read.cpp", PEERS / "memory_read"
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    flags = ["-std=c++20", "-O3", "-march=native", "-pthread"]
    make(program, source, source, lambda new: [*compiler, *flags, source, "-o", new])
    return program
