//! Log-probabilities of the rows that asked for them, by the model's own distribution.

use mlx_sys::{Array, Axis, Dtype};
use troupe_protocol::TokenLogprobs;

use super::Row;
use crate::batch::vector;
use crate::error::Result;

/// Still on the device.
#[derive(Debug)]
pub(crate) struct Logprobs {
    /// For each of the L rows: its index among those of the logits, and how many alternatives it wants.
    rows: Vec<(usize, usize)>,
    values: mlx_sys::TokenLogprobs,
}

impl Logprobs {
    /// By `logits` [S, vocabulary] f32 before anything changed them, for the chosen `tokens` [S] u32.
    pub(super) fn new(logits: &Array, tokens: &Array, rows: &[Row<'_>]) -> Result<Option<Self>> {
        let wanted = |(at, row): (usize, &Row<'_>)| Some((at, usize::from(row.params.logprobs?)));
        let rows: Vec<(usize, usize)> = rows.iter().enumerate().filter_map(wanted).collect();
        if rows.is_empty() { Ok(None) } else { Self::of(logits, tokens, rows).map(Some) }
    }

    /// The same for `rows` of the logits, each with how many alternatives it wants; at least one row.
    pub(crate) fn of(logits: &Array, tokens: &Array, rows: Vec<(usize, usize)>) -> Result<Self> {
        let which: Vec<i32> = rows.iter().map(|&(at, _)| at as i32).collect();
        let most = rows.iter().map(|&(_, count)| count).max().unwrap_or(0);
        let values = if logits.has_sampling_kernel() {
            logits.token_logprobs(tokens, &which, most)?
        } else {
            by_graph(logits, tokens, &which, most)?
        };
        Ok(Self { rows, values })
    }

    /// All arrays that have to be evaluated before [`Self::read`].
    pub(crate) fn outputs(&self) -> [&Array; 3] {
        [&self.values.chosen, &self.values.ids, &self.values.values]
    }

    /// For each of the L rows, its index and what there is to say of its token.
    pub(crate) fn read(&self) -> Result<Vec<(usize, TokenLogprobs)>> {
        let chosen = self.values.chosen.to_vec::<f32>()?;
        let (ids, values) = (self.values.ids.to_vec::<u32>()?, self.values.values.to_vec::<f32>()?);
        let width = ids.len() / self.rows.len();
        let read = |(at, (&(row, count), chosen)): (usize, (&(usize, usize), f32))| {
            let range = at * width..(at + 1) * width;
            let mut top: Vec<_> =
                ids[range.clone()].iter().copied().zip(values[range].iter().copied()).collect();
            // Ties in order of the id, so that the same logits always read the same.
            top.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            top.truncate(count);
            (row, TokenLogprobs { chosen, top })
        };
        Ok(self.rows.iter().zip(chosen).enumerate().map(read).collect())
    }
}

/// The same as the kernel by MLX's own operations, for other devices and as its oracle, but with the most likely tokens
/// in no order.
pub(super) fn by_graph(
    logits: &Array,
    tokens: &Array,
    which: &[i32],
    count: usize,
) -> Result<mlx_sys::TokenLogprobs> {
    let places = vector(which)?;
    let own = logits.take(&places, 0)?;
    let all = own.subtract(&own.logsumexp(-1, Axis::Keep)?)?;
    let chosen = all.take_along_axis(&tokens.take(&places, 0)?.expand_dims(&[1])?, -1)?.squeeze(&[1])?;
    let count = count.min(all.dim(-1) as usize) as i32;
    let shape = [which.len() as i32, count];
    if count == 0 {
        let (ids, values) = (Array::zeros(&shape, Dtype::U32)?, Array::zeros(&shape, Dtype::F32)?);
        return Ok(mlx_sys::TokenLogprobs { chosen, ids, values });
    }
    let best = all.negative()?.argpartition(count - 1, -1)?.slice(&[0, 0], &shape, &[1, 1])?;
    let values = all.take_along_axis(&best, -1)?;
    Ok(mlx_sys::TokenLogprobs { chosen, ids: best.astype(Dtype::U32)?, values })
}
