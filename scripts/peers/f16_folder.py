"""Writes a GGUF model of the llama family as a Hugging Face folder in f16: `f16_folder.py MODEL.gguf FOLDER`.

Needs gguf, numpy, safetensors and tokenizers in its path. The weights are the file's own, dequantised; names, the
layout of q and k (GGUF keeps their rotary halves interleaved), configuration and tokenizer take the folder's form.
"""

import json
import sys
from pathlib import Path

import gguf
import numpy
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
KNOWN = {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm"}
# gguf's token types.
CONTROL, USER_DEFINED = 3, 4


def main():
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    reader = gguf.GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    for key, known in KNOWN.items():
        if fields.get(key) != known:
            sys.exit("error: %s has %s %r, and only %r is known here" % (source.name, key, fields.get(key), known))
    folder.mkdir(parents=True, exist_ok=True)
    tensors = weights(reader, fields)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", configuration(fields, tied="lm_head.weight" not in tensors))
    tokenizer(fields).save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", tokenizer_configuration(fields))


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


# ---------------------------------------------------------------- weights


def weights(reader, fields):
    heads = {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}
    tensors = {}
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        if tensor.name in OUTSIDE:
            name = OUTSIDE[tensor.name]
        else:
            _, layer, kind, suffix = tensor.name.split(".")
            name = "model.layers.%s.%s.%s" % (layer, IN_LAYER[kind], suffix)
            if kind in heads:
                values = halves_apart(values, heads[kind])
        tensors[name] = numpy.ascontiguousarray(values, dtype=numpy.float16)
    return tensors


def halves_apart(values, heads):
    """Rows of a head from the order 0, n/2, 1, n/2 + 1, ... to 0, 1, 2, ..."""
    rows, columns = values.shape
    return values.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def configuration(fields, tied):
    width, heads = fields["llama.embedding_length"], fields["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "float16",
        "hidden_act": "silu",
        "hidden_size": width,
        "head_dim": width // heads,
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": round(fields["llama.attention.layer_norm_rms_epsilon"], 12),
        "rope_theta": fields["llama.rope.freq_base"],
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "tie_word_embeddings": tied,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
    }


# ---------------------------------------------------------------- tokenizer


def tokenizer(fields):
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    built = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    built.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    built.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, kinds):
        if kind in (CONTROL, USER_DEFINED):
            built.add_tokens([AddedToken(token, special=kind == CONTROL, normalized=False)])
    return built


def tokenizer_configuration(fields):
    tokens = fields["tokenizer.ggml.tokens"]
    configuration = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[fields["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[fields["tokenizer.ggml.eos_token_id"]],
        "clean_up_tokenization_spaces": False,
        "model_max_length": fields["llama.context_length"],
    }
    if "tokenizer.chat_template" in fields:
        configuration["chat_template"] = fields["tokenizer.chat_template"]
    return configuration


if __name__ == "__main__":
    main()
