//! Choosing tokens on the device.
//!
//! All rows of a step are sampled together. A row's choice is a function of its own logits, parameters,
//! seed and position: nothing here looks across rows. Greedy rows skip the work that drawing needs, and rows
//! without penalties, biases or log-probabilities pay for none.

mod draw;
mod penalties;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use mlx_sys::{Array, Axis, Dtype};
use troupe_protocol::random::uniform;
use troupe_protocol::{SampledToken, SamplingParams, SlotId, TokenLogprobs};

use crate::batch::{column, vector};
use crate::error::Result;
use crate::slots::Slots;

pub use penalties::TokenCounts;

/// A row to be sampled.
#[derive(Clone, Copy, Debug)]
pub struct SampleRow {
    /// Whose parameters.
    pub slot: SlotId,
    /// Position that the new token will take; also the counter of the random draw.
    pub position: u32,
}

/// What was sampled, still on the device.
#[derive(Debug)]
pub struct Sampled {
    /// [S] u32.
    pub tokens: Array,
    logprobs: Option<Logprobs>,
}

/// Log-probabilities of the rows that asked for them.
#[derive(Debug)]
struct Logprobs {
    /// For each of the L rows: its index in the step, and how many alternatives it wants.
    rows: Vec<(usize, usize)>,
    /// Of the chosen tokens, [L] f32.
    chosen: Array,
    /// Ids of the most likely tokens in no order, [L, N] u32, and their log-probabilities [L, N] f32.
    top: Option<(Array, Array)>,
}

/// Chooses a token for each row of `logits` [S, vocabulary] and books it in the rows' penalty counts.
///
/// # Errors
/// A slot without an owner, or an operation that MLX refuses.
pub fn sample(logits: &Array, rows: &[SampleRow], slots: &mut Slots) -> Result<Sampled> {
    let logits = logits.astype(Dtype::F32)?;
    let mut params = Vec::with_capacity(rows.len());
    for row in rows {
        params.push(Rc::clone(&slots.get(row.slot)?.sampling));
    }
    let adjusted = penalties::apply(&logits, rows, slots)?;
    let adjusted = add_biases(adjusted, &params)?;
    let tokens = choose(&adjusted, &params, rows)?;
    penalties::book(&tokens, rows, slots)?;
    let logprobs = Logprobs::new(&logits, &tokens, &params)?;
    Ok(Sampled { tokens, logprobs })
}

/// Adds the rows' `logit_bias`.
fn add_biases(logits: Array, params: &[Rc<SamplingParams>]) -> Result<Array> {
    let width = logits.dim(-1);
    let mut places = Vec::new();
    let mut values = Vec::new();
    for (row, params) in (0_i32..).zip(params) {
        for &(token, bias) in &params.logit_bias {
            places.push(row * width + token as i32);
            values.push(bias);
        }
    }
    if places.is_empty() {
        return Ok(logits);
    }
    let flat = logits.flatten(0, -1)?.add_rows(&vector(&places)?, &vector(&values)?)?;
    Ok(flat.reshape(&[-1, width])?)
}

/// Greedy rows take the most likely token, the others draw.
fn choose(logits: &Array, params: &[Rc<SamplingParams>], rows: &[SampleRow]) -> Result<Array> {
    // With so little mass or so few candidates kept, the draw could fall on one token only.
    let takes_best = |p: &SamplingParams| p.is_greedy() || p.top_k == 1 || p.top_p <= 0.0;
    let drawing: Vec<usize> = (0..params.len()).filter(|&row| !takes_best(&params[row])).collect();
    if drawing.is_empty() {
        return Ok(logits.argmax(-1, Axis::Drop)?);
    }
    let own: Vec<&SamplingParams> = drawing.iter().map(|&row| params[row].as_ref()).collect();
    let uniforms: Vec<f32> =
        drawing.iter().map(|&row| uniform(params[row].seed, rows[row].position)).collect();
    if drawing.len() == params.len() {
        return draw::draw(logits, &own, &column(&uniforms)?);
    }
    let places = indices(&drawing)?;
    let drawn = draw::draw(&logits.take(&places, 0)?, &own, &column(&uniforms)?)?;
    Ok(logits.argmax(-1, Axis::Drop)?.set_rows(&places, &drawn)?)
}

/// Host indices as an i32 array.
fn indices(rows: &[usize]) -> Result<Array> {
    vector(&rows.iter().map(|&row| row as i32).collect::<Vec<_>>())
}

impl Logprobs {
    fn new(logits: &Array, tokens: &Array, params: &[Rc<SamplingParams>]) -> Result<Option<Self>> {
        let wanted = |(row, params): (usize, &Rc<SamplingParams>)| Some((row, usize::from(params.logprobs?)));
        let rows: Vec<(usize, usize)> = params.iter().enumerate().filter_map(wanted).collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let places = indices(&rows.iter().map(|&(row, _)| row).collect::<Vec<_>>())?;
        let own = logits.take(&places, 0)?;
        let all = own.subtract(&own.logsumexp(-1, Axis::Keep)?)?;
        let chosen = all.take_along_axis(&tokens.take(&places, 0)?.expand_dims(&[1])?, -1)?.squeeze(&[1])?;
        let most = rows.iter().map(|&(_, n)| n).max().unwrap_or(0).min(all.dim(-1) as usize) as i32;
        let top = if most == 0 {
            None
        } else {
            let best = all.negative()?.argpartition(most - 1, -1)?.slice(
                &[0, 0],
                &[rows.len() as i32, most],
                &[1, 1],
            )?;
            Some((best.astype(Dtype::U32)?, all.take_along_axis(&best, -1)?))
        };
        Ok(Some(Self { rows, chosen, top }))
    }

    fn read(&self, out: &mut [SampledToken]) -> Result<()> {
        let chosen = self.chosen.to_vec::<f32>()?;
        let (ids, values) = match &self.top {
            Some((ids, values)) => (ids.to_vec::<u32>()?, values.to_vec::<f32>()?),
            None => (Vec::new(), Vec::new()),
        };
        let width = ids.len() / self.rows.len();
        for (at, (&(row, count), chosen)) in self.rows.iter().zip(chosen).enumerate() {
            let range = at * width..(at + 1) * width;
            let mut top: Vec<_> =
                ids[range.clone()].iter().copied().zip(values[range].iter().copied()).collect();
            // Ties in order of the id, so that the same logits always read the same.
            top.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            top.truncate(count);
            out[row].logprobs = Some(TokenLogprobs { chosen, top });
        }
        Ok(())
    }
}

impl Sampled {
    /// All arrays that have to be evaluated before [`Self::read`].
    pub fn outputs(&self) -> Vec<&Array> {
        let mut outputs = vec![&self.tokens];
        if let Some(logprobs) = &self.logprobs {
            outputs.push(&logprobs.chosen);
            outputs.extend(logprobs.top.iter().flat_map(|(ids, values)| [ids, values]));
        }
        outputs
    }

    /// Waits for the device and reads the tokens, in the order of the rows.
    ///
    /// # Errors
    /// If the evaluation failed.
    pub fn read(&self) -> Result<Vec<SampledToken>> {
        let ids = self.tokens.to_vec::<u32>()?;
        let mut out: Vec<_> = ids.into_iter().map(|id| SampledToken { id, logprobs: None }).collect();
        if let Some(logprobs) = &self.logprobs {
            logprobs.read(&mut out)?;
        }
        Ok(out)
    }
}
