//! Mistakes that are made on purpose, between core, executor and clients, to see that each checker notices. Those within the
//! core's own books are planted by the tests of its invariants.

use troupe_protocol::{
    FinishReason, RejectReason, RowOutput, RowTokens, SequenceId, StepMasks, StepOutcome, StepPlan, StoreId,
    TokenMask,
};
use troupe_scheduler::Effect;

/// A mistake that is made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Two blocks of a table change places.
    SwappedBlocks,
    /// A row names a block of another row.
    StolenBlock,
    /// A row begins one token too late.
    SkippedToken,
    /// A row takes the slot of another.
    WrongSlot,
    /// A step has more tokens than it may.
    OverBudget,
    /// A block is saved where another is.
    MisplacedSave,
    /// A block is not saved.
    LostSave,
    /// A block is loaded from where another is.
    MisplacedLoad,
    /// A block is not loaded.
    LostLoad,
    /// A plan does not come to the executor.
    LostPlan,
    /// The core does not hear of an outcome.
    LostOutcome,
    /// An outcome has lost its tokens.
    SilentStep,
    /// An outcome names another token than was sampled.
    WrongToken,
    /// What a sequence may say next is not told.
    LostMask,
    /// A row is sampled within another mask than its sequence's.
    WrongMask,
    /// A row of a guided sequence is sampled without its mask.
    FreedRow,
    /// Two rows that wait for their masks get each other's.
    SwappedMasks,
    /// The mask of a row that waits for it does not come to the executor.
    UnsentMask,
    /// How likely tokens of a prompt are is not told.
    LostPrompt,
    /// It is told twice.
    DoubledPrompt,
    /// A row scores other tokens than those of its prompt.
    WrongTargets,
    /// That a request was taken is told twice.
    DoubledAccept,
    /// That a request was taken is not told.
    LostAccept,
    /// What was taken is refused.
    LateReject,
    /// A token does not arrive.
    LostToken,
    /// A token arrives twice.
    DoubledToken,
    /// An end is told twice.
    DoubledEnd,
    /// An end is not told.
    LostEnd,
    /// An end is told in the middle.
    EarlyEnd,
    /// Another reason is told than that of the end.
    WrongReason,
    /// More tokens are counted than were said.
    WrongUsage,
}

/// Each of them, with what the one who should notice says.
pub const CANARIES: [(Canary, &str); 31] = [
    (Canary::SwappedBlocks, "holds another's tokens"),
    (Canary::StolenBlock, "holds another's tokens"),
    (Canary::SkippedToken, "holds nothing"),
    (Canary::WrongSlot, "said another token"),
    (Canary::OverBudget, "exceed the budget"),
    (Canary::MisplacedSave, "stored-"),
    (Canary::LostSave, "holds nothing"),
    (Canary::MisplacedLoad, "holds another's tokens"),
    (Canary::LostLoad, "holds"),
    (Canary::LostPlan, "not at an end"),
    (Canary::LostOutcome, "steps complete in the order of submission"),
    (Canary::SilentStep, "refused that nobody garbled"),
    (Canary::WrongToken, "said another token"),
    (Canary::LostMask, "not at an end"),
    (Canary::WrongMask, "said another token"),
    (Canary::FreedRow, "said another token"),
    (Canary::SwappedMasks, "said another token"),
    (Canary::UnsentMask, "the slot's last token is another"),
    (Canary::LostPrompt, "before all of its prompt was told"),
    (Canary::DoubledPrompt, "is as likely as another"),
    (Canary::WrongTargets, "is as likely as another"),
    (Canary::DoubledAccept, "was accepted twice"),
    (Canary::LostAccept, "was never accepted"),
    (Canary::LateReject, "was accepted and rejected"),
    (Canary::LostToken, "said another token"),
    (Canary::DoubledToken, "said another token"),
    (Canary::DoubledEnd, "hears something after its end"),
    (Canary::LostEnd, "never heard their end"),
    (Canary::EarlyEnd, "ended too early"),
    (Canary::WrongReason, "ended for another reason"),
    (Canary::WrongUsage, "counts other tokens"),
];

impl Canary {
    /// Spoils a plan on its way to the executor; nothing is left of one that is lost.
    pub fn spoil_plan(self, mut plan: StepPlan, budget: u32) -> Option<StepPlan> {
        let rows = &mut plan.rows;
        match self {
            Self::LostPlan => return None,
            Self::MisplacedSave => plan.saves.iter_mut().for_each(|save| save.stored = StoreId(0)),
            Self::LostSave => plan.saves.clear(),
            Self::MisplacedLoad => plan.loads.iter_mut().for_each(|load| load.stored = StoreId(0)),
            Self::LostLoad => plan.loads.clear(),
            Self::SwappedBlocks => {
                rows.iter_mut().filter(|row| row.blocks.len() > 1).for_each(|row| row.blocks.swap(0, 1));
            }
            Self::StolenBlock if rows.len() > 1 => rows[0].blocks[0] = rows[1].blocks[0],
            Self::SkippedToken => {
                for row in rows.iter_mut() {
                    if let RowTokens::Prompt(tokens) = &mut row.tokens
                        && tokens.len() > 1
                    {
                        tokens.remove(0);
                        row.start += 1;
                    }
                }
            }
            Self::WrongSlot => {
                let slots: Vec<_> = rows.iter().map(|row| row.slot).collect();
                let sampled = |at: &usize| matches!(rows[*at].tokens, RowTokens::Sampled(_));
                let both: Vec<usize> = (0..rows.len()).filter(sampled).take(2).collect();
                if let [first, second] = both[..] {
                    rows[first].slot = slots[second];
                }
            }
            Self::WrongMask => {
                rows.iter_mut().for_each(|row| row.mask = row.mask.as_ref().map(others));
            }
            Self::WrongTargets => {
                rows.iter_mut().flat_map(|row| &mut row.targets).for_each(|target| *target ^= 1);
            }
            Self::FreedRow => rows.iter_mut().for_each(|row| row.mask = None),
            Self::OverBudget => {
                if let RowTokens::Prompt(tokens) = &mut rows[0].tokens {
                    tokens.resize(budget as usize + 1, 0);
                    rows[0].output = RowOutput::None;
                }
            }
            _ => {}
        }
        Some(plan)
    }

    /// Spoils what the executor answers.
    pub fn spoil_outcome(self, outcome: &mut StepOutcome) {
        match self {
            Self::SilentStep => outcome.rows.clear(),
            Self::WrongToken => outcome.rows.iter_mut().for_each(|row| row.token.id ^= 1),
            _ => {}
        }
    }

    /// Spoils masks on their way to the executor.
    fn spoil_masks(self, masks: &mut Vec<(SequenceId, TokenMask)>) {
        match self {
            Self::WrongMask => masks.iter_mut().for_each(|(_, mask)| *mask = others(mask)),
            Self::SwappedMasks if masks.len() > 1 => {
                let first = masks[0].1.clone();
                masks[0].1 = std::mem::replace(&mut masks[1].1, first);
            }
            Self::UnsentMask => masks.truncate(masks.len().saturating_sub(1)),
            _ => {}
        }
    }

    /// Spoils what clients hear, and what else follows from the core's decisions.
    pub fn spoil_effects(self, effects: &mut Vec<Effect>) {
        for effect in effects.iter_mut() {
            if let Effect::GiveMasks(StepMasks { masks, .. }) = effect {
                self.spoil_masks(masks);
            }
        }
        let wanted = |effect: &Effect| match self {
            Self::DoubledAccept | Self::LostAccept => matches!(effect, Effect::Accept { .. }),
            Self::LostPrompt | Self::DoubledPrompt => matches!(effect, Effect::DeliverPrompt { .. }),
            Self::LostToken | Self::DoubledToken => matches!(effect, Effect::Deliver { .. }),
            Self::DoubledEnd | Self::LostEnd | Self::WrongReason | Self::WrongUsage => {
                matches!(effect, Effect::Finish { .. })
            }
            Self::EarlyEnd | Self::LateReject => matches!(effect, Effect::Deliver { .. }),
            _ => false,
        };
        let Some(at) = effects.iter().position(wanted) else { return };
        match (self, &mut effects[at]) {
            (Self::DoubledAccept | Self::DoubledPrompt | Self::DoubledToken | Self::DoubledEnd, effect) => {
                let effect = effect.clone();
                effects.insert(at, effect);
            }
            (Self::WrongReason, Effect::Finish { reason, .. }) => {
                *reason = match *reason {
                    FinishReason::Stop => FinishReason::Length,
                    FinishReason::Length => FinishReason::Stop,
                }
            }
            (Self::WrongUsage, Effect::Finish { usage, .. }) => usage.completion_tokens += 1,
            (Self::EarlyEnd, Effect::Deliver { sequence, .. }) => {
                let (sequence, reason) = (*sequence, FinishReason::Length);
                effects[at] = Effect::Finish { sequence, reason, usage: Default::default() };
            }
            (Self::LateReject, Effect::Deliver { sequence, .. }) => {
                effects[at] = Effect::Reject { sequence: *sequence, reason: RejectReason::NotReady };
            }
            _ => {
                effects.remove(at);
            }
        }
    }
}

/// A mask of tokens that another does not allow.
fn others(mask: &TokenMask) -> TokenMask {
    TokenMask::new(mask.words().iter().map(|word| !word & 0xff).collect())
}
