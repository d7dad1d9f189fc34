//! The served model, described once and shared by all who answer for it. Immutable.

use std::sync::Arc;

use troupe_model_files::GenerationDefaults;
use troupe_protocol::{EngineLimits, SamplingParams, TokenId};

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

    /// The tokens that end an answer: those that the model's makers name, and those of its format.
    pub fn end_tokens(&self) -> Vec<TokenId> {
        let makers = &self.defaults.eos_token_ids;
        let of_format = self.output.ends().iter().filter(|end| !makers.contains(end));
        makers.iter().chain(of_format).copied().collect()
    }

    /// Whether a client that asks for `model` means this one.
    pub fn answers_to(&self, model: &str) -> bool {
        self.id == model || self.aliases.iter().any(|alias| alias == model)
    }
}

#[cfg(test)]
mod tests {
    use troupe_parsers::Format;

    use super::*;
    use crate::testing::{END, VOCAB_SIZE, byte_tokenizer_with, model_card};

    #[test]
    fn c050_a_format_that_goes_on_into_a_tools_answer_ends_there() {
        let ends = |format: Format, control: &[&str]| {
            let tokenizer = byte_tokenizer_with(control).unwrap();
            let output = OutputSyntax::new(Some(format), None, &tokenizer);
            ModelCard { output, ..model_card(64).unwrap() }.end_tokens()
        };
        let after = ["<|call|>", "<|tool_response>", "<start_function_response>", "<|return|>"];
        for (format, expected) in [
            (Format::Gemma4, vec![END, VOCAB_SIZE + 1]),
            (Format::FunctionGemma, vec![END, VOCAB_SIZE + 2]),
            (Format::Harmony, vec![END, VOCAB_SIZE + 3, VOCAB_SIZE]),
            (Format::Hermes, vec![END]),
        ] {
            assert_eq!(ends(format, &after), expected, "{}", format.name());
            // A vocabulary without them has nothing more to end with.
            assert_eq!(ends(format, &[]), [END], "{}", format.name());
        }
    }
}
