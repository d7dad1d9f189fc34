//! Flags that say how a text is generated, shared by `generate` and `run`.

use clap::Args;

use crate::local::GenerateOptions;

/// Sampling flags. Those that are not given take the model's own defaults.
#[derive(Args, Debug)]
#[command(next_help_heading = "Generation")]
pub(super) struct SamplingArgs {
    /// Most tokens of an answer [default: what is left of the context]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// Randomness, from 0 (always the most likely token) to 2 [default: the model's, else 0]
    #[arg(long, visible_alias = "temp", value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Keep the most likely tokens that together have this probability
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Keep this many of the most likely tokens; 0 keeps all
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,
    /// Drop tokens less likely than this share of the most likely one
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    min_p: Option<f32>,
    /// Above 1, makes what was already written less likely
    #[arg(long, visible_alias = "repeat-penalty", value_name = "R", allow_negative_numbers = true)]
    repetition_penalty: Option<f32>,
    /// From -2 to 2; above 0, makes what the answer already holds less likely
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    presence_penalty: Option<f32>,
    /// From -2 to 2; the same, for each time that it holds it
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,
    /// Same seed, same text
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Text that ends the answer and is not part of it; may be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
}

impl From<SamplingArgs> for GenerateOptions {
    fn from(args: SamplingArgs) -> Self {
        Self {
            max_tokens: args.max_tokens,
            temperature: args.temperature,
            top_p: args.top_p,
            top_k: args.top_k,
            min_p: args.min_p,
            repetition_penalty: args.repetition_penalty,
            presence_penalty: args.presence_penalty,
            frequency_penalty: args.frequency_penalty,
            seed: args.seed,
            stop: args.stop,
            logprobs: None,
        }
    }
}
