//! What a model's files say about talking to it: chat templates, special tokens and sampling defaults.

use crate::error::Result;
use crate::json::JsonFile;

/// A chat template under a name, for instance `tool_use`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTemplate {
    /// The name, never `default`.
    pub name: String,
    /// Jinja source.
    pub template: String,
}

/// The chat templates of a model, as Jinja source that has not been parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChatTemplates {
    /// The template used when none is named.
    pub default: Option<String>,
    /// Further ones.
    pub named: Vec<NamedTemplate>,
}

/// The texts of the special tokens, which templates refer to as `bos_token` and so on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the tokenizer's configuration, less `_token`")]
pub struct SpecialTokens {
    pub bos: Option<String>,
    pub eos: Option<String>,
    pub unk: Option<String>,
    pub pad: Option<String>,
    pub sep: Option<String>,
    pub cls: Option<String>,
    pub mask: Option<String>,
}

/// Defaults for generation. `None` means that the model's files do not say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GenerationDefaults {
    /// Tokens that end a text; the first is the tokenizer's own.
    pub eos_token_ids: Vec<u32>,
    /// The token that starts a text.
    pub bos_token_id: Option<u32>,
    /// The token that fills a batch.
    pub pad_token_id: Option<u32>,
    /// Whether the model's makers sample by default.
    pub do_sample: Option<bool>,
    /// Zero or more.
    pub temperature: Option<f32>,
    /// From 0 to 1.
    pub top_p: Option<f32>,
    /// Zero means no limit.
    pub top_k: Option<u32>,
    /// From 0 to 1.
    pub min_p: Option<f32>,
    /// From 0 to 1; 1 means none.
    pub typical_p: Option<f32>,
    /// Over 0; 1 means none.
    pub repetition_penalty: Option<f32>,
}

/// All three, as an open model keeps them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prompting {
    pub(crate) templates: ChatTemplates,
    pub(crate) special_tokens: SpecialTokens,
    pub(crate) generation: GenerationDefaults,
}

impl GenerationDefaults {
    /// From generation_config.json, with the ids of config.json where that does not name them.
    pub(crate) fn from_json(generation: &JsonFile, config: &JsonFile) -> Result<Self> {
        let ids = |key: &str| match generation.token_ids(key)? {
            ids if ids.is_empty() => config.token_ids(key),
            ids => Ok(ids),
        };
        Ok(Self {
            eos_token_ids: ids("eos_token_id")?,
            bos_token_id: ids("bos_token_id")?.first().copied(),
            pad_token_id: ids("pad_token_id")?.first().copied(),
            do_sample: generation.bool("do_sample")?,
            temperature: number(generation, "temperature", "0 or more", |number| number >= 0.0)?,
            top_p: number(generation, "top_p", "a number from 0 to 1", |number| {
                (0.0..=1.0).contains(&number)
            })?,
            top_k: generation.u32("top_k")?,
            min_p: number(generation, "min_p", "a number from 0 to 1", |number| {
                (0.0..=1.0).contains(&number)
            })?,
            typical_p: number(generation, "typical_p", "a number from 0 to 1", |number| {
                (0.0..=1.0).contains(&number)
            })?,
            repetition_penalty: number(generation, "repetition_penalty", "over 0", |number| number > 0.0)?,
        })
    }
}

fn number(file: &JsonFile, key: &str, expected: &str, accept: impl Fn(f32) -> bool) -> Result<Option<f32>> {
    match file.f32(key)? {
        Some(number) if !accept(number) => Err(file.wrong(key, expected, &number.into())),
        number => Ok(number),
    }
}
