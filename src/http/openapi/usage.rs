//! What an answer took.
#![expect(dead_code, reason = "the types are read by their derive alone")]

use utoipa::ToSchema;

/// Tokens that were read and written. A prompt counts once, however many choices it has.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Usage {
    /// Of the prompts.
    prompt_tokens: u32,
    /// Of the choices.
    completion_tokens: u32,
    /// Of both.
    total_tokens: u32,
    /// Where the prompts' tokens came from.
    prompt_tokens_details: PromptTokensDetails,
    /// What the choices' tokens are.
    completion_tokens_details: CompletionTokensDetails,
}

/// Where the prompts' tokens came from.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct PromptTokensDetails {
    /// Those that had been computed before.
    cached_tokens: u32,
}

/// What the choices' tokens are.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct CompletionTokensDetails {
    /// Those of reasoning.
    reasoning_tokens: u32,
}
