"""Measures mlx-lm on MLX's CPU backend: `mlx_lm_speed.py FOLDER bf16|4bit PROMPT_TOKENS OUTPUT_TOKENS`.

Prints its prompt and decode speed as JSON. mlx-lm goes on past the end of an answer: its end tokens are taken away.
"""

import json
import sys

import mlx.core as mx
import mlx.nn as nn
from mlx_lm import load, stream_generate


def main():
    folder, kind, prompt_tokens, output_tokens = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    mx.set_default_device(mx.cpu)
    model, tokenizer = load(folder)
    # f16, the files' own type, is the slowest of MLX's CPU backend: each form gets the type that suits it.
    if kind == "4bit":
        model.set_dtype(mx.float32)
        nn.quantize(model, group_size=32, bits=4)
    else:
        model.set_dtype(mx.bfloat16)
    mx.eval(model.parameters())
    tokenizer.eos_token_ids = set()
    prompt = [1000 + 7 * number for number in range(prompt_tokens)]
    last = None
    for last in stream_generate(model, tokenizer, prompt, max_tokens=output_tokens):
        pass
    result = {"prompt_tokens": last.prompt_tokens, "output_tokens": last.generation_tokens}
    print(json.dumps(result | {"prefill": last.prompt_tps, "decode": last.generation_tps}))


if __name__ == "__main__":
    main()
