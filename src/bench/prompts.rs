//! Prompts of a wanted length, made of common words by a seeded generator.

use anyhow::Result;
use troupe_protocol::random::uniform;

use super::client::{Client, TokenizeForm};

/// Words that most vocabularies hold as one token each.
const WORDS: &[&str] = &[
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "was", "on", "are", "as", "with", "they",
    "at", "be", "this", "from", "have", "or", "by", "one", "had", "not", "but", "what", "all", "were",
    "when", "we", "there", "can", "an", "your", "which", "their", "said", "if", "do", "will", "each",
    "about", "how", "up", "out", "them", "then", "she", "many", "some", "so", "these", "would", "other",
    "into", "has", "more", "her", "two", "like", "him", "see", "time",
];

/// Tokens a word, where the server does not count: the usual figure for English.
const TOKENS_PER_WORD: f64 = 1.3;

/// How often a prompt's length is corrected. Lengths are nearly linear in words, so it seldom takes
/// more than two.
const MAX_CORRECTIONS: usize = 6;

/// What prompts to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptShape {
    /// Tokens of a prompt, without what a chat template adds.
    pub tokens: usize,
    /// Of these, how many all prompts begin with.
    pub shared_prefix: usize,
    /// Same seed, same prompts.
    pub seed: u64,
}

/// How the length of a text is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sizing {
    /// The server's `/tokenize` counts.
    Counted(TokenizeForm),
    /// The server has no `/tokenize`; lengths are estimated from words.
    Estimated,
}

/// Makes prompts. Each begins (after the shared prefix) with a tag of its own, so that a prefix cache finds
/// nothing but the shared prefix.
pub(super) struct Prompts<'a> {
    client: &'a Client,
    shape: PromptShape,
    prefix: String,
    sizing: Sizing,
}

impl<'a> Prompts<'a> {
    /// Asks the server whether it counts tokens, and makes the shared prefix.
    pub(super) async fn new(client: &'a Client, shape: PromptShape) -> Result<Self> {
        let mut sizing = Sizing::Estimated;
        for form in TokenizeForm::ALL {
            // A server that reads another form may answer with no tokens instead of an error.
            if client.count_tokens(form, "one two three").await?.is_some_and(|count| count > 0) {
                sizing = Sizing::Counted(form);
                break;
            }
        }
        let mut prompts = Self { client, shape, prefix: String::new(), sizing };
        if shape.shared_prefix > 0 {
            prompts.prefix = prompts.sized(|n| words(shape.seed, n), shape.shared_prefix).await?;
        }
        Ok(prompts)
    }

    /// The `index`-th prompt.
    pub(super) async fn make(&self, index: u64) -> Result<String> {
        let seed = self.shape.seed.wrapping_mul(0x9e37_79b9).wrapping_add(index + 1);
        let text = |n| unique(&self.prefix, seed, index, n);
        self.sized(text, self.shape.tokens).await
    }

    pub(super) fn sizing(&self) -> Sizing {
        self.sizing
    }

    /// The text of `text(words)` whose length is `tokens`, or as near as whole words come to it.
    async fn sized(&self, text: impl Fn(usize) -> String, tokens: usize) -> Result<String> {
        let Sizing::Counted(form) = self.sizing else {
            let fixed = text(0).split_whitespace().count();
            let wanted = (tokens as f64 / TOKENS_PER_WORD).round() as usize;
            return Ok(text(wanted.saturating_sub(fixed)));
        };
        let mut count = tokens;
        let mut best = (usize::MAX, String::new());
        for _ in 0..MAX_CORRECTIONS {
            let candidate = text(count);
            let Some(got) = self.client.count_tokens(form, &candidate).await? else { break };
            let miss = got.abs_diff(tokens);
            if miss < best.0 {
                best = (miss, candidate);
            }
            if miss == 0 || (got > tokens && count == 0) {
                break;
            }
            count = (count + tokens).saturating_sub(got);
        }
        Ok(best.1)
    }
}

fn unique(prefix: &str, seed: u64, index: u64, count: usize) -> String {
    let space = if prefix.is_empty() { "" } else { " " };
    format!("{prefix}{space}{} {index} {}", tag(seed), words(seed, count)).trim_end().to_owned()
}

/// Two words that come first, so that neighbouring prompts part at once.
fn tag(seed: u64) -> String {
    words(seed ^ 0x5bd1_e995, 2)
}

fn words(seed: u64, count: usize) -> String {
    let word = |i: usize| WORDS[(uniform(seed, i as u32) * WORDS.len() as f32) as usize];
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn prompts_are_their_own_and_can_be_made_again() {
        let make = |seed: u64| (0..200).map(|i| unique("", seed + i, i, 20)).collect::<Vec<_>>();
        assert_eq!(make(1), make(1));
        let texts: HashSet<_> = make(1).into_iter().collect();
        assert_eq!(texts.len(), 200);
        // The part that a cache could share is short: three words in are already different.
        let starts: HashSet<_> =
            texts.iter().map(|t| t.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(starts.len(), 200);
    }

    #[test]
    fn a_shared_prefix_comes_first() {
        assert!(unique("same start", 5, 0, 4).starts_with("same start "));
        assert_eq!(unique("same start", 5, 0, 4).split(' ').count(), 2 + 2 + 1 + 4);
    }
}
