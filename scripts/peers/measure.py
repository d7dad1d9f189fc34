"""One side of a comparison at a time: each measurement runs once a round and gives some numbers by name."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from fetch import ROOT

from . import prepare
from .prepare import Failure, run
from .servers import Server

TROUPE = ROOT / "target" / "release" / "troupe"
STEP_LIMIT_S = 180

PREFILL_TOKENS = 512
DECODE_TOKENS = 128
SHORT_CONTEXT, LONG_CONTEXT, CONTEXT_TOKENS = 128, 4096, 64
STREAMS, REQUESTS, REQUEST_PROMPT, REQUEST_OUTPUT = 8, 16, 64, 96
# Tokens of a sequence at most: so few that the requests fill the KV blocks, and the memory beside them can be told.
SLOT_TOKENS = 256
MLX_LM_PROMPT, MLX_LM_OUTPUT = 32, 16

# Greedy decoding of any model goes on with this for long.
COUNTING = "one, two, three, four, "
WORDS = "the people of that country have a good time every year and then work for some days in their own house".split()


@dataclass
class Setup:
    """What every measurement needs to know."""

    model: Path
    threads: int
    prompts: dict  # tokens -> text


# ---------------------------------------------------------------- Troupe


ENGINE = ["--device", "cpu", "--max-num-seqs", STREAMS, "--max-model-len", SLOT_TOKENS]


def serve_troupe(model):
    return Server([TROUPE, "serve", "--model", model, *ENGINE, "--host", "127.0.0.1", "--port"], "/ready")


def prompts(model):
    """Texts of about the wanted lengths, fitted with the model's own tokenizer."""
    wanted = [PREFILL_TOKENS, SHORT_CONTEXT - CONTEXT_TOKENS // 2, LONG_CONTEXT - CONTEXT_TOKENS // 2]
    with serve_troupe(model) as server:
        return {tokens: text_of(tokens, server) for tokens in wanted}


def text_of(tokens, server):
    count = tokens
    for _ in range(20):
        text = " ".join(WORDS[number % len(WORDS)] for number in range(count))
        excess = server.post("/tokenize", {"prompt": text})["count"] - tokens
        if excess == 0 or count == excess:
            break
        count -= excess
    return text


def generate(model, prompt, output_tokens, flags=()):
    command = [TROUPE, "generate", "--device", "cpu", "--model", model, "--raw", "--json", "--temperature", "0"]
    result = json.loads(run([*command, *flags, "--max-tokens", output_tokens, "--prompt", prompt], STEP_LIMIT_S))
    got = result["usage"]["completion_tokens"]
    if got < output_tokens:
        raise Failure("the answer ended after %d of %d tokens" % (got, output_tokens))
    return result


def troupe_decode(setup, model=None):
    result = generate(model or setup.model, COUNTING, DECODE_TOKENS)
    return {"decode": result["decode_tokens_per_second"]}


def troupe_prefill(setup, model=None):
    result = generate(model or setup.model, setup.prompts[PREFILL_TOKENS], 1)
    return {"prefill": result["usage"]["prompt_tokens"] / result["ttft_seconds"]}


def troupe_context(setup, flags=()):
    """Decode speed while the context grows from half of the generated tokens below a length to half above it."""
    rates = {}
    for name, context in ("short", SHORT_CONTEXT), ("long", LONG_CONTEXT):
        result = generate(setup.model, setup.prompts[context - CONTEXT_TOKENS // 2], CONTEXT_TOKENS, flags)
        rates[name] = result["decode_tokens_per_second"]
    return rates


def troupe_http(setup):
    with serve_troupe(setup.model) as server:
        result = {"ready_seconds": server.ready_seconds, **drive(server)}
        peak = server.peak_rss_bytes()
    if peak is not None:
        result["peak_rss_mb"] = peak / 1e6
        result["overhead_mb"] = (peak - model_bytes(setup.model)) / 1e6
    return result


def model_bytes(model):
    """Bytes of weights and of KV blocks, as the server was told to keep them."""
    memory = json.loads(run([TROUPE, "inspect", "--json", *ENGINE, model], STEP_LIMIT_S))["memory"]
    return memory["weight_bytes"] + memory["kv_bytes"]


def drive(server):
    """The same requests for every server."""
    command = [TROUPE, "bench", "--url", server.url, "--json", "-", "--ignore-eos", "--concurrency", STREAMS]
    command += ["--requests", REQUESTS, "--prompt-tokens", REQUEST_PROMPT, "--output-tokens", REQUEST_OUTPUT]
    totals = json.loads(run(command, STEP_LIMIT_S))["totals"]
    if totals["output_tokens"] != REQUESTS * REQUEST_OUTPUT:
        raise Failure("%d of %d tokens came" % (totals["output_tokens"], REQUESTS * REQUEST_OUTPUT))
    return {"output": totals["output_tokens_per_second"]}


# ---------------------------------------------------------------- llama.cpp


def llama_bench(setup, model, flags):
    command = [prepare.LLAMA_BIN / "llama-bench", "-m", model, "-t", setup.threads, "-r", 1, "-o", "json", *flags]
    (result,) = json.loads(run(command, STEP_LIMIT_S))
    return result["avg_ts"]


def llama_decode(setup, model=None):
    return {"decode": llama_bench(setup, model or setup.model, ["-n", DECODE_TOKENS, "-p", 0])}


def llama_prefill(setup, model=None):
    return {"prefill": llama_bench(setup, model or setup.model, ["-n", 0, "-p", PREFILL_TOKENS])}


def llama_context(setup):
    """Decode speed of tokens after so many, which count from half of theirs below the length as ours do."""
    depth = LONG_CONTEXT - CONTEXT_TOKENS // 2
    return {"long": llama_bench(setup, setup.model, ["-n", CONTEXT_TOKENS, "-p", 0, "-d", depth])}


def llama_http(setup):
    slots = ["-np", STREAMS, "-t", setup.threads, "-tb", setup.threads, "-c", STREAMS * SLOT_TOKENS]
    command = [prepare.LLAMA_BIN / "llama-server", "-m", setup.model, *slots, "--host", "127.0.0.1", "--port"]
    with Server(command, "/health") as server:
        return {"ready_seconds": server.ready_seconds, **drive(server)}


# ---------------------------------------------------------------- mlx-lm


def mlx_lm(setup, kind):
    program = prepare.HERE / "mlx_lm_speed.py"
    command = [sys.executable, program, prepare.f16_folder(setup.model), kind, MLX_LM_PROMPT, MLX_LM_OUTPUT]
    result = json.loads(run(command, STEP_LIMIT_S, prepare.python_environment()))
    return {"prefill": result["prefill"], "decode": result["decode"]}


# ---------------------------------------------------------------- all of them

# Name -> what one round of it does. They run in this order, so that the two sides of a comparison are neighbours.
MEASUREMENTS = {
    "troupe decode": troupe_decode,
    "llama.cpp decode": llama_decode,
    "troupe prefill": troupe_prefill,
    "llama.cpp prefill": llama_prefill,
    "mlx-lm bf16": lambda setup: mlx_lm(setup, "bf16"),
    "mlx-lm 4-bit": lambda setup: mlx_lm(setup, "4bit"),
    "troupe http": troupe_http,
    "llama.cpp http": llama_http,
    "troupe f16 decode": lambda setup: troupe_decode(setup, prepare.f16_folder(setup.model)),
    "llama.cpp f16 decode": lambda setup: llama_decode(setup, prepare.f16_gguf(setup.model)),
    "troupe f16 prefill": lambda setup: troupe_prefill(setup, prepare.f16_folder(setup.model)),
    "llama.cpp f16 prefill": lambda setup: llama_prefill(setup, prepare.f16_gguf(setup.model)),
    "troupe context": troupe_context,
    "troupe context int8": lambda setup: troupe_context(setup, ["--kv-cache-dtype", "int8"]),
    "llama.cpp context": llama_context,
}
