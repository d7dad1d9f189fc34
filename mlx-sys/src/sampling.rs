//! Choosing tokens from rows of logits, and reading log-probabilities, as one graph node each: f32 on the CPU, in time
//! linear in the vocabulary. Elsewhere, build them of ordinary operations: see [`Array::has_sampling_kernel`].
//!
//! What a row gives depends on that row alone, bit for bit. A NaN among the logits counts as −∞: it is never chosen
//! unless the row has nothing else, and then its first token is, of those that it may choose.

use std::num::NonZeroU32;

use crate::array::{Array, list, unlist};
use crate::bridge::ffi;
use crate::{Error, Result};

/// How a row's token is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Choice {
    /// The most likely token, the lowest id among equals.
    Greedy,
    /// At random.
    Draw(Drawing),
}

/// A draw from the distribution that a row's logits give, after all limits.
///
/// Limits apply in the order of the fields, each within what the one before left, and look at the distribution before
/// the temperature, which shapes what they keep. Equal logits are kept or dropped together. A row whose largest logit is
/// infinite is greedy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawing {
    /// Divides the logits that are kept: positive and finite. Below 3e-39 the row is greedy.
    pub temperature: f32,
    /// Keeps the `k` largest logits; one makes the row greedy.
    pub top_k: Option<NonZeroU32>,
    /// Keeps a logit if the mass of those above it is less than this share of all, in [0, 1]; zero makes the row
    /// greedy, and one keeps everything.
    pub top_p: f32,
    /// Keeps tokens at least this many times as likely as the most likely one, in [0, 1].
    pub min_p: f32,
    /// The random number, in [0, 1): the first kept token, in the order of ids, at which the cumulative mass of the
    /// kept ones exceeds this share of their total.
    pub uniform: f32,
}

/// Penalties of tokens that were seen before.
#[derive(Debug, Clone, Copy)]
pub struct Penalty<'a> {
    /// How often each token is in the prompt, `[vocabulary]` f32; only whether it is positive matters.
    pub prompt: &'a Array,
    /// How often each token was generated, `[vocabulary]` f32.
    pub generated: &'a Array,
    /// Divides the positive and multiplies the negative logits of tokens in either.
    pub repetition: f32,
    /// Subtracted from the logits of generated tokens.
    pub presence: f32,
    /// Subtracted for each time that a token was generated.
    pub frequency: f32,
}

/// A row's part in [`Array::choose_tokens`].
#[derive(Debug, Clone, Copy)]
pub struct RowChoice<'a> {
    /// How its token is chosen.
    pub choice: Choice,
    /// Added to the logits of single tokens first; those of one token add up.
    pub biases: &'a [(u32, f32)],
    /// Applied to the logits next.
    pub penalty: Option<Penalty<'a>>,
    /// The tokens that may be chosen, at least one: bit `t % 32` of word `t / 32` allows token `t`. All if there is none.
    pub mask: Option<&'a [u32]>,
}

/// Natural logarithms of probabilities of L rows.
#[derive(Debug, Clone)]
pub struct TokenLogprobs {
    /// Of the rows' tokens, `[L]` f32.
    pub chosen: Array,
    /// The most likely tokens, `[L, count]` u32: the most likely first, the lowest id among equals.
    pub ids: Array,
    /// Their log-probabilities, `[L, count]` f32.
    pub values: Array,
}

impl Array {
    /// True when [`Self::choose_tokens`] and [`Self::token_logprobs`] take these logits.
    #[must_use]
    pub fn has_sampling_kernel(&self) -> bool {
        ffi::has_sampling(self.raw())
    }

    /// A token for each row of these logits `[rows, vocabulary]`: `[rows]` u32.
    ///
    /// # Errors
    /// Logits that no kernel takes, another number of rows, counts of another shape or type, a bias beyond the
    /// vocabulary, a mask of another width, or a parameter out of its range.
    pub fn choose_tokens(&self, rows: &[RowChoice<'_>]) -> Result<Array> {
        let mut inputs = vec![self];
        let (mut drawings, mut penalties, mut biases) =
            (Vec::with_capacity(rows.len()), Vec::new(), Vec::new());
        let mut masks = ffi::RowMasks { rows: Vec::new(), words: Vec::new() };
        for (row, asked) in (0..).zip(rows) {
            if let Some(words) = asked.mask {
                masks.rows.push(row);
                masks.words.extend_from_slice(words);
            }
            drawings.push(drawing(&asked.choice)?);
            if let Some(penalty) = &asked.penalty {
                inputs.extend([penalty.prompt, penalty.generated]);
                let &Penalty { repetition, presence, frequency, .. } = penalty;
                penalties.push(ffi::RowPenalty { row, repetition, presence, frequency });
            }
            biases.extend(asked.biases.iter().map(|&(token, value)| ffi::TokenBias { row, token, value }));
        }
        Array::wrap(ffi::choose_tokens(&list(&inputs), &drawings, &penalties, &biases, &masks))
    }

    /// Log-probabilities, by these logits `[rows, vocabulary]`, of `tokens` `[rows]` u32 and of the `count` most
    /// likely tokens (all, if that is more); of the rows `which` only.
    ///
    /// # Errors
    /// Logits that no kernel takes, tokens of another shape or type, or a row that does not exist; on evaluation for
    /// a token beyond the vocabulary.
    pub fn token_logprobs(&self, tokens: &Array, which: &[i32], count: usize) -> Result<TokenLogprobs> {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let mut outputs = unlist(&*ffi::token_logprobs(self.raw(), tokens.raw(), which, count)?).into_iter();
        match (outputs.next(), outputs.next(), outputs.next()) {
            (Some(chosen), Some(ids), Some(values)) => Ok(TokenLogprobs { chosen, ids, values }),
            _ => Err(Error::Mlx("token_logprobs gave less than three arrays".to_owned())),
        }
    }
}

/// The parameters as C++ reads them, each within its range.
fn drawing(choice: &Choice) -> Result<ffi::RowDrawing> {
    let Choice::Draw(how) = choice else {
        let (temperature, top_k, top_p, min_p, uniform) = (1.0, 0, 1.0, 0.0, 0.0);
        return Ok(ffi::RowDrawing { greedy: true, temperature, top_k, top_p, min_p, uniform });
    };
    let &Drawing { temperature, top_k, top_p, min_p, uniform } = how;
    for (name, value, allowed) in [
        ("temperature", temperature, temperature.is_finite() && temperature > 0.0),
        ("top_p", top_p, (0.0..=1.0).contains(&top_p)),
        ("min_p", min_p, (0.0..=1.0).contains(&min_p)),
        ("uniform", uniform, (0.0..1.0).contains(&uniform)),
    ] {
        if !allowed {
            return Err(Error::Mlx(format!("[choose_tokens] {name} {value} is out of range")));
        }
    }
    let top_k = top_k.map_or(0, NonZeroU32::get);
    Ok(ffi::RowDrawing { greedy: false, temperature, top_k, top_p, min_p, uniform })
}
