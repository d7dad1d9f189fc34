"""A byte-level BPE written from its definition, as the reference for the tokenizer tests.

Reads {"tokens", "merges", "patterns", "added", "texts"} as JSON on standard input and writes one list of ids a text.
Slow and plain on purpose: split at the added tokens, split each part by each pattern in turn, then join the best pair
until none is left.
"""

import functools
import json
import sys

import regex


def byte_characters():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + at) for at, byte in enumerate(others)}


def isolate(pattern, parts):
    for part in parts:
        end = 0
        for match in pattern.finditer(part):
            if match.start() > end:
                yield part[end : match.start()]
            if match.group():
                yield match.group()
            end = match.end()
        if end < len(part):
            yield part[end:]


def main():
    case = json.load(sys.stdin)
    ids = {}
    for index, token in enumerate(case["tokens"]):
        ids.setdefault(token, index)
    ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(case["merges"])}
    patterns = [regex.compile(pattern) for pattern in case["patterns"]]
    longest_first = sorted(case["added"], key=len, reverse=True)
    added = regex.compile("|".join(map(regex.escape, longest_first)) or "(?!)")
    characters = byte_characters()

    @functools.cache
    def encode_word(word):
        symbols = [characters[byte] for byte in word.encode()]
        while len(symbols) > 1:
            pairs = list(zip(symbols, symbols[1:]))
            best = min(pairs, key=lambda pair: ranks.get(pair, float("inf")))
            if best not in ranks:
                break
            at = pairs.index(best)
            symbols[at : at + 2] = ["".join(best)]
        return [ids[symbol] for symbol in symbols]

    def encode(text):
        out = []
        for part in isolate(added, [text]):
            if part in case["added"]:
                out.append(ids[part])
                continue
            words = [part]
            for pattern in patterns:
                words = list(isolate(pattern, words))
            for word in words:
                out.extend(encode_word(word))
        return out

    json.dump([encode(text) for text in case["texts"]], sys.stdout)


main()
