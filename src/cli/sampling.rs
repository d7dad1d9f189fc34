//! Flags that say how a text is generated, shared by `generate` and `run`.

use clap::Args;

use crate::local::GenerateOptions;
use crate::sampler_options::{LastN, SamplerOptions};

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
    /// How many of the last tokens --repetition-penalty looks at; -1 is all
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = last_n)]
    repeat_last_n: Option<LastN>,
    /// Above 0, makes what would go on with a repetition less likely
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    dry_multiplier: Option<f32>,
    /// Factor of that penalty for each further token of a repetition
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    dry_base: Option<f32>,
    /// Repetitions shorter than this are free of it
    #[arg(long, value_name = "N")]
    dry_allowed_length: Option<u32>,
    /// How many of the last tokens it looks at; -1 is all
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = last_n)]
    dry_penalty_last_n: Option<LastN>,
    /// Text that a repetition does not reach across; may be repeated
    #[arg(long, value_name = "TEXT")]
    dry_sequence_breaker: Option<Vec<String>>,
    /// Keep what is within this many standard deviations of the most likely token; 0 keeps all
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    top_n_sigma: Option<f32>,
    /// Keep the most typical tokens that together have this probability
    #[arg(long, visible_alias = "typical", value_name = "P", allow_negative_numbers = true)]
    typical_p: Option<f32>,
    /// How often top choices but the least likely one are excluded
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    xtc_probability: Option<f32>,
    /// What makes a token a top choice
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    xtc_threshold: Option<f32>,
    /// The temperature moves by up to this with the entropy
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    dynatemp_range: Option<f32>,
    /// Exponent of the entropy's share
    #[arg(long, visible_alias = "dynatemp-exp", value_name = "X", allow_negative_numbers = true)]
    dynatemp_exponent: Option<f32>,
    /// 2 keeps surprise near a target, in place of all that truncates; 0 is off
    #[arg(long, value_name = "VERSION")]
    mirostat: Option<u32>,
    /// The target in bits
    #[arg(long, visible_alias = "mirostat-ent", value_name = "X", allow_negative_numbers = true)]
    mirostat_tau: Option<f32>,
    /// How fast it is approached
    #[arg(long, visible_alias = "mirostat-lr", value_name = "X", allow_negative_numbers = true)]
    mirostat_eta: Option<f32>,
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
            sampler: SamplerOptions {
                repeat_last_n: args.repeat_last_n,
                dry_multiplier: args.dry_multiplier,
                dry_base: args.dry_base,
                dry_allowed_length: args.dry_allowed_length,
                dry_penalty_last_n: args.dry_penalty_last_n,
                dry_sequence_breakers: args.dry_sequence_breaker,
                top_n_sigma: args.top_n_sigma,
                typical_p: args.typical_p,
                xtc_probability: args.xtc_probability,
                xtc_threshold: args.xtc_threshold,
                dynatemp_range: args.dynatemp_range,
                dynatemp_exponent: args.dynatemp_exponent,
                mirostat: args.mirostat,
                mirostat_tau: args.mirostat_tau,
                mirostat_eta: args.mirostat_eta,
            },
            seed: args.seed,
            stop: args.stop,
            logprobs: None,
        }
    }
}

/// A count, or -1 for all.
fn last_n(text: &str) -> Result<LastN, String> {
    if text == "-1" {
        return Ok(LastN::All);
    }
    text.parse().map(LastN::Tokens).map_err(|_| "it is neither a count of tokens nor -1, for all".to_owned())
}
