//! Masks that come while their step is computed.
//!
//! A guided sequence takes part in the lookahead: its row is submitted before the token that it goes on from was read, so
//! before anybody knows what may follow that. The device computes the row and does not sample. When the token was read, the
//! session says what may come next, and the masks of all rows go to the executor together. Only then is another step
//! planned, so each step is built on tokens that are sampled for certain.

use troupe_protocol::{RowOutput, StepMasks};

use crate::event::{Effect, Effects, Timestamp};
use crate::{InFlight, InFlightRow, MASK_PATIENCE, Scheduler};

impl Scheduler {
    /// Until when a step waits for masks, if it does. Those who wait for theirs were in one step, and stay together: going
    /// on one by one, they would have a step each. A session that takes longer than the patience is not waited for.
    pub(crate) fn masks_awaited_until(&self, now: Timestamp) -> Option<Timestamp> {
        let patience = self.mask_patience();
        let awaited = self.running.iter().filter_map(|&key| self.sequences[key].awaits_mask());
        awaited.map(|since| Timestamp(since.0.saturating_add(patience))).filter(|until| *until > now).max()
    }

    /// Microseconds. What is left of the step is time enough to submit the next.
    fn mask_patience(&self) -> u64 {
        let waits = |row: &InFlightRow| row.output == RowOutput::SampleLater;
        let step = self.in_flight.back().filter(|step| step.rows.iter().any(waits));
        let takes = step.and_then(|step| self.pace.decode_time(step.rows.len() as u32));
        takes.map_or(MASK_PATIENCE, |takes| MASK_PATIENCE.max(takes / 2))
    }

    /// Hands out the masks of the step in flight, if rows of it wait for theirs. Those that have none are taken back.
    pub(crate) fn give_masks(&mut self, effects: &mut Effects) {
        let Some(InFlight { step, rows, .. }) = self.in_flight.back_mut() else { return };
        let mut masks = None;
        for row in rows.iter_mut().filter(|row| row.output == RowOutput::SampleLater) {
            let masks = masks.get_or_insert_with(alloc::vec::Vec::new);
            let Some(sequence) = self.sequences.get_mut(row.sequence) else {
                row.output = RowOutput::None;
                continue;
            };
            if let Some(mask) = sequence.late_mask(*step) {
                row.output = RowOutput::Sample;
                masks.push((row.sequence.id, mask));
            } else {
                // What it computed stands, but will be written again: nobody is to find it by its name before.
                (row.output, row.end) = (RowOutput::None, row.end - 1);
                sequence.take_back(*step, row.end);
            }
        }
        effects.extend(masks.map(|masks| Effect::GiveMasks(StepMasks { step: *step, masks })));
    }
}
