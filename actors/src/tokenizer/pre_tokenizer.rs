//! The pre-tokenisers that GGUF files name in `tokenizer.ggml.pre`, as the `tokenizer.json` files of those families
//! spell them.

use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior};

use super::TokenizerError;

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_WORDS: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

/// One rule of a pre-tokeniser. Rules run in turn, each on the parts that those before it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Splits at the matches of a pattern, which become parts of their own.
    Isolate(&'static str),
    /// Splits every digit off.
    EachDigit,
    /// GPT-2's own pattern.
    Gpt2Words,
}

/// One pre-tokeniser.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    /// Its names in GGUF files.
    names: &'static [&'static str],
    rules: &'static [Rule],
    /// Whether text is brought into Unicode's composed form first.
    composes: bool,
    /// Whether a part that is a token is taken whole, without merges.
    pub(super) ignores_merges: bool,
    /// Whether a text starts with the BOS token where the file does not say.
    pub(super) adds_bos: bool,
}

const fn plain(names: &'static [&'static str], rules: &'static [Rule]) -> PreTokenizer {
    PreTokenizer { names, rules, composes: false, ignores_merges: false, adds_bos: false }
}

/// All that are known.
const PRE_TOKENIZERS: &[PreTokenizer] = &[
    plain(&["gpt-2", "phi-2"], &[Rule::Gpt2Words]),
    plain(&["smollm", "starcoder", "refact"], &[Rule::EachDigit, Rule::Gpt2Words]),
    PreTokenizer {
        ignores_merges: true,
        adds_bos: true,
        ..plain(&["llama-bpe", "llama3", "llama-v3", "falcon3", "lfm2"], &[Rule::Isolate(LLAMA3)])
    },
    PreTokenizer { ignores_merges: true, ..plain(&["glm4"], &[Rule::Isolate(LLAMA3)]) },
    PreTokenizer { composes: true, ..plain(&["qwen2"], &[Rule::Isolate(QWEN2)]) },
    plain(&["deepseek-r1-qwen"], &[Rule::Isolate(QWEN2)]),
    PreTokenizer { composes: true, ..plain(&["qwen35"], &[Rule::Isolate(QWEN35)]) },
    PreTokenizer { ignores_merges: true, adds_bos: true, ..plain(&["tekken"], &[Rule::Isolate(TEKKEN)]) },
    PreTokenizer { ignores_merges: true, ..plain(&["gpt-4o", "llama4"], &[Rule::Isolate(GPT4O)]) },
    plain(
        &["deepseek-v3"],
        &[Rule::Isolate(r"\p{N}{1,3}"), Rule::Isolate("[一-龥぀-ゟ゠-ヿ]+"), Rule::Isolate(DEEPSEEK_WORDS)],
    ),
];

/// The pre-tokeniser of that name.
///
/// # Errors
/// [`TokenizerError::UnknownPreTokenizer`] with the known names.
pub(super) fn find(name: Option<&str>) -> Result<&'static PreTokenizer, TokenizerError> {
    let name = name.unwrap_or_default();
    PRE_TOKENIZERS.iter().find(|candidate| candidate.names.contains(&name)).ok_or_else(|| {
        let known: Vec<&str> = PRE_TOKENIZERS.iter().flat_map(|candidate| candidate.names).copied().collect();
        TokenizerError::UnknownPreTokenizer { name: name.to_owned(), known: known.join(", ") }
    })
}

impl PreTokenizer {
    /// The library's form: the rules, then bytes to characters.
    pub(super) fn build(&self) -> Result<PreTokenizerWrapper, TokenizerError> {
        let uses_words = self.rules.contains(&Rule::Gpt2Words);
        let mut steps = Vec::new();
        for rule in self.rules {
            match rule {
                Rule::Isolate(pattern) => {
                    let pattern = SplitPattern::Regex((*pattern).to_owned());
                    let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
                        .map_err(|error| TokenizerError::Vocabulary { reason: error.to_string() })?;
                    steps.push(PreTokenizerWrapper::from(split));
                }
                Rule::EachDigit => steps.push(Digits::new(true).into()),
                // The library keeps GPT-2's pattern inside the byte-level step.
                Rule::Gpt2Words => {}
            }
        }
        steps.push(ByteLevel::new(false, false, uses_words).into());
        Ok(Sequence::new(steps).into())
    }

    /// The normaliser, if it has one.
    pub(super) fn normalizer(&self) -> Option<NormalizerWrapper> {
        self.composes.then(|| NormalizerWrapper::from(NFC))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for pre_tokenizer in PRE_TOKENIZERS {
            assert!(pre_tokenizer.build().is_ok(), "{:?}", pre_tokenizer.names);
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let message = find(Some("klingon")).unwrap_err().to_string();
        assert!(message.contains("klingon") && message.contains("smollm"), "{message}");
        assert!(find(None).is_err());
    }
}
