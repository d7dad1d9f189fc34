//! Choosing tokens, on the device where it knows all that a row asks for.
//!
//! All rows of a step are sampled together. A row's choice is a function of its own logits, parameters,
//! seed and position: nothing here looks across rows. Greedy rows skip the work that drawing needs, and rows
//! without penalties, biases, masks or log-probabilities pay for none. docs/sampling.md gives the order of it all.

mod choose;
mod draw;
mod graph;
mod host;
mod logprobs;
mod penalties;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::rc::Rc;

use mlx_sys::{Array, Dtype};
use troupe_protocol::{SampledToken, SamplingParams, SlotId, TokenId, TokenMask};
use troupe_sampler::Scratch;

use crate::batch::vector;
use crate::error::Result;
use crate::slots::Slots;
use host::{HostRow, HostRows};

pub use host::SharedSampler;
pub(crate) use logprobs::Logprobs;
pub use penalties::TokenCounts;

/// A row to be sampled.
#[derive(Clone, Copy, Debug)]
pub struct SampleRow<'a> {
    /// Whose parameters.
    pub slot: SlotId,
    /// Position that the new token will take; also the counter of the random draw.
    pub position: u32,
    /// The tokens that may be chosen, if not all may: as wide as the vocabulary, and not empty.
    pub mask: Option<&'a TokenMask>,
}

/// What was sampled, or will be once it is read.
#[derive(Debug)]
pub struct Sampled {
    device: Option<DeviceRows>,
    host: Option<HostRows>,
}

/// Rows whose tokens the device chooses.
#[derive(Debug)]
struct DeviceRows {
    /// For each of the D rows, its index among all rows that are sampled.
    indices: Vec<usize>,
    /// Their slots.
    slots: Vec<SlotId>,
    /// [D] u32.
    tokens: Array,
    logprobs: Option<Logprobs>,
}

/// A chosen token.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The token.
    pub token: SampledToken,
    /// What mirostat learned by it, if it is on.
    pub mu: Option<f32>,
}

/// A row with what its slot says.
#[derive(Clone)]
struct Row<'a> {
    position: u32,
    params: &'a SamplingParams,
    /// Added to the logits: `logit_bias`, and minus infinity for what is banned.
    biases: Cow<'a, [(TokenId, f32)]>,
    /// Present if penalties are on.
    counts: Option<&'a TokenCounts>,
    /// The tokens that may be chosen.
    mask: Option<&'a TokenMask>,
}

/// Chooses a token for each row of `logits` [S, vocabulary] and books it in the rows' penalty counts. What the host
/// chooses, it chooses and books when it is read.
///
/// # Errors
/// A slot without an owner, or an operation that MLX refuses.
pub fn sample(logits: &Array, rows: &[SampleRow<'_>], slots: &mut Slots) -> Result<Sampled> {
    let logits = logits.astype(Dtype::F32)?;
    let (mut on_device, mut on_host) = (Vec::new(), Vec::new());
    for (index, row) in rows.iter().enumerate() {
        match &slots.get(row.slot)?.sampler {
            Some(sampler) => {
                let (position, mask) = (row.position, row.mask.cloned());
                on_host.push(HostRow { index, position, mask, sampler: Rc::clone(sampler) });
            }
            None => on_device.push(index),
        }
    }
    let host = match on_host.is_empty() {
        true => None,
        false => {
            let places: Vec<_> = on_host.iter().map(|row| row.index).collect();
            Some(HostRows::new(part(&logits, &places)?, on_host))
        }
    };
    let device = match on_device.is_empty() {
        true => None,
        false => {
            let own: Vec<_> = on_device.iter().map(|&index| rows[index]).collect();
            Some(DeviceRows::sample(&part(&logits, &on_device)?, &own, on_device, slots)?)
        }
    };
    Ok(Sampled { device, host })
}

/// The rows of `logits` at `places`, which ascend.
fn part(logits: &Array, places: &[usize]) -> Result<Array> {
    if places.len() == logits.dim(0) as usize {
        return Ok(logits.clone());
    }
    Ok(logits.take(&indices(places)?, 0)?)
}

fn with_slots<'a>(rows: &[SampleRow<'a>], slots: &'a Slots) -> Result<Vec<Row<'a>>> {
    let known = |row: &SampleRow<'a>| {
        let slot = slots.get(row.slot)?;
        let (position, params, mask) = (row.position, &*slot.sampling, row.mask);
        Ok(Row { position, params, biases: biases(params, position), counts: slot.counts.as_ref(), mask })
    };
    rows.iter().map(known).collect()
}

fn biases(params: &SamplingParams, position: u32) -> Cow<'_, [(TokenId, f32)]> {
    let Some(ban) = params.ban.as_ref().filter(|ban| position < ban.before) else {
        return Cow::Borrowed(&params.logit_bias);
    };
    let banned = ban.tokens.iter().map(|&token| (token, f32::NEG_INFINITY));
    Cow::Owned(params.logit_bias.iter().copied().chain(banned).collect())
}

/// Whether the most likely token is taken. With so little mass or so few candidates kept, a draw could fall on it only.
fn takes_best(params: &SamplingParams) -> bool {
    params.is_greedy() || params.top_k == 1 || params.top_p <= 0.0
}

/// Host indices as an i32 array.
fn indices(rows: &[usize]) -> Result<Array> {
    vector(&rows.iter().map(|&row| row as i32).collect::<Vec<_>>())
}

impl DeviceRows {
    /// `indices` are those of the rows among all that are sampled.
    fn sample(logits: &Array, rows: &[SampleRow], indices: Vec<usize>, slots: &mut Slots) -> Result<Self> {
        let known = with_slots(rows, slots)?;
        let tokens = if logits.has_sampling_kernel() {
            choose::choose(logits, &known)?
        } else {
            graph::choose(logits, &known)?
        };
        let logprobs = Logprobs::new(logits, &tokens, &known)?;
        penalties::book(&tokens, rows, slots)?;
        Ok(Self { indices, slots: rows.iter().map(|row| row.slot).collect(), tokens, logprobs })
    }

    fn read(self) -> Result<Vec<(usize, Chosen)>> {
        let ids = self.tokens.to_vec::<u32>()?;
        let mut tokens: Vec<_> = ids.into_iter().map(|id| SampledToken { id, logprobs: None }).collect();
        if let Some(logprobs) = &self.logprobs {
            for (row, logprobs) in logprobs.read()? {
                tokens[row].logprobs = Some(logprobs);
            }
        }
        let chosen = tokens.into_iter().map(|token| Chosen { token, mu: None });
        Ok(self.indices.into_iter().zip(chosen).collect())
    }
}

impl Sampled {
    /// Tokens [D] u32 that are on the device, and whose they are: what the next step can go on from unread.
    pub fn on_device(&self) -> Option<(&[SlotId], &Array)> {
        self.device.as_ref().map(|rows| (rows.slots.as_slice(), &rows.tokens))
    }

    /// All arrays that have to be evaluated before [`Self::read`].
    pub fn outputs(&self) -> Vec<&Array> {
        let mut outputs: Vec<_> = self.host.iter().map(HostRows::output).collect();
        if let Some(rows) = &self.device {
            outputs.push(&rows.tokens);
            outputs.extend(rows.logprobs.iter().flat_map(Logprobs::outputs));
        }
        outputs
    }

    /// Waits for the device, lets the host choose what it has to, and gives the tokens in the order of the rows. The host
    /// works in `scratch`.
    ///
    /// # Errors
    /// If the evaluation failed.
    pub fn read(self, scratch: &mut Scratch) -> Result<Vec<Chosen>> {
        let mut chosen = self.device.map_or(Ok(Vec::new()), DeviceRows::read)?;
        chosen.extend(self.host.map_or(Ok(Vec::new()), |rows| rows.read(scratch))?);
        chosen.sort_by_key(|(index, _)| *index);
        Ok(chosen.into_iter().map(|(_, chosen)| chosen).collect())
    }
}
