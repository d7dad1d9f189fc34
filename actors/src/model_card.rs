//! The served model, described once and shared by all who answer for it. Immutable.

use std::sync::Arc;

use troupe_model_files::GenerationDefaults;
use troupe_protocol::{EngineLimits, SamplingParams};

use crate::guide::Vocabulary;
use crate::output_syntax::OutputSyntax;
use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;

/// What sessions and endpoints need to know of the model.
#[derive(Debug)]
pub struct ModelCard {
    /// The name that clients call it by, and that answers carry.
    pub id: String,
    /// Further names that are accepted, such as the path that it was loaded from.
    pub aliases: Vec<String>,
    /// When it was loaded, in seconds since 1970.
    pub created: u64,
    /// The engine's bounds. What is advertised is what is enforced.
    pub limits: EngineLimits,
    /// From text to tokens and back.
    pub tokenizer: Arc<Tokenizer>,
    /// Its tokens, as grammars see them.
    pub vocabulary: Arc<Vocabulary>,
    /// From conversations to text; absent if the model has none.
    pub template: Option<Arc<ChatTemplate>>,
    /// How its answers mark reasoning and calls.
    pub output: OutputSyntax,
    /// Sampling defaults and the tokens that end a text, as its makers set them.
    pub defaults: GenerationDefaults,
}

impl ModelCard {
    /// Sampling parameters of a request that names none: the makers' where they said, else the plain distribution.
    pub fn default_sampling(&self) -> SamplingParams {
        let defaults = &self.defaults;
        SamplingParams {
            temperature: defaults.temperature.unwrap_or(1.0),
            top_k: defaults.top_k.unwrap_or(0),
            top_p: defaults.top_p.unwrap_or(1.0),
            min_p: defaults.min_p.unwrap_or(0.0),
            typical_p: defaults.typical_p.unwrap_or(1.0),
            repetition_penalty: defaults.repetition_penalty.unwrap_or(1.0),
            ..SamplingParams::greedy()
        }
    }

    /// Whether a client that asks for `model` means this one.
    pub fn answers_to(&self, model: &str) -> bool {
        self.id == model || self.aliases.iter().any(|alias| alias == model)
    }
}
