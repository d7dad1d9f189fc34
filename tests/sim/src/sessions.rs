//! The clients: what each has heard, and what it must hear next.

use std::collections::{BTreeMap, BTreeSet};

use troupe_protocol::{
    Fault, FinishReason, LengthClasses, NewSequence, SequenceId, TokenId, TokenLogprobs, TokenMask, Usage,
};
use troupe_scheduler::{Effect, MAX_REPLAYS};

use crate::fake_gpu::{content, likelihood, says, start};
use crate::guide::{mask, says_within};

/// Everybody who asked, and everybody whose end was told.
#[derive(Debug, Default)]
pub struct Sessions {
    open: BTreeMap<SequenceId, Session>,
    ended: BTreeSet<SequenceId>,
    /// Times at which steps failed.
    failures: u32,
    /// Outcomes that the executor garbled.
    garbled: u32,
    /// Outcomes that the core found wrong.
    refused: u32,
    awaits_refusal: bool,
    masks: Vec<MaskGrant>,
}

/// What a guided sequence may say next, as its session has worked it out.
#[derive(Clone, Debug)]
pub struct MaskGrant {
    /// Whose.
    pub sequence: SequenceId,
    /// Tokens before the one that it is for.
    pub generated: u32,
    /// What that may be.
    pub mask: TokenMask,
}

#[derive(Debug)]
struct Session {
    request: NewSequence,
    arrived: u64,
    /// Failures before it arrived.
    failures: u32,
    content: u64,
    /// Tokens of its prompt whose log-probabilities it has heard, from the first on, which has none; and their content.
    scored: (usize, u64),
    received: u32,
    credit: u32,
    is_accepted: bool,
    /// What its last token means.
    end: Option<FinishReason>,
}

impl Sessions {
    /// A client asks.
    pub fn open(&mut self, request: &NewSequence, classes: LengthClasses, now: u64) {
        let before = start(classes.class_of(request.max_len()));
        let after = |before, token: &TokenId| content(before, *token);
        let session = Session {
            arrived: now,
            failures: self.failures,
            content: request.prompt.iter().fold(before, after),
            scored: (1, request.prompt.iter().take(1).fold(before, after)),
            received: 0,
            credit: request.credit,
            is_accepted: false,
            end: None,
            request: request.clone(),
        };
        self.open.insert(request.id, session);
    }

    /// A client has room for more.
    pub fn grant(&mut self, sequence: SequenceId, tokens: u32) {
        if let Some(session) = self.open.get_mut(&sequence) {
            session.credit += tokens;
        }
    }

    /// A client goes away.
    pub fn close(&mut self, sequence: SequenceId) {
        if self.open.remove(&sequence).is_some() {
            self.ended.insert(sequence);
        }
    }

    /// All steps in flight failed.
    pub fn steps_failed(&mut self) {
        self.failures += 1;
    }

    /// An outcome was garbled, and is to be refused: its step has failed.
    pub fn outcome_garbled(&mut self) {
        self.garbled += 1;
        self.failures += 1;
        self.awaits_refusal = true;
    }

    /// Whether the last garbled outcome, which was told since, was refused.
    ///
    /// # Panics
    /// If it was not.
    pub fn check_refusal(&self) {
        assert!(!self.awaits_refusal, "a garbled outcome was believed");
    }

    /// Masks for the tokens that come next, as far as they were not taken yet.
    pub fn take_masks(&mut self) -> Vec<MaskGrant> {
        std::mem::take(&mut self.masks)
    }

    /// Who has not heard an end.
    pub fn open_ids(&self) -> Vec<SequenceId> {
        self.open.keys().copied().collect()
    }

    /// Whether nobody waits beyond a deadline.
    ///
    /// # Panics
    /// If somebody does.
    pub fn check_deadlines(&self, now: u64) {
        for (id, session) in &self.open {
            let timeout = session.request.timeout;
            assert!(timeout.is_none_or(|timeout| session.arrived + timeout > now), "{id} is overdue");
        }
    }

    /// A client hears something.
    ///
    /// # Panics
    /// If it is not what it must hear.
    pub fn observe(&mut self, effect: Effect, now: u64) {
        match effect {
            Effect::Accept { sequence, .. } => {
                let session = self.session(sequence);
                assert!(!std::mem::replace(&mut session.is_accepted, true), "{sequence} was accepted twice");
            }
            Effect::Started { sequence, cached_tokens, .. } => {
                let session = self.session(sequence);
                assert!(session.is_accepted, "{sequence} was never accepted");
                assert!(
                    (cached_tokens as usize) < session.request.prompt.len(),
                    "{sequence} computes nothing"
                );
            }
            Effect::Preempted { sequence } => {
                self.session(sequence);
            }
            Effect::DeliverPrompt { sequence, logprobs } => self.session(sequence).hear_prompt(&logprobs),
            Effect::Deliver { sequence, token } => {
                let next = self.session(sequence).hear(token.id);
                self.masks.extend(next);
            }
            Effect::Finish { sequence, reason, usage } => {
                self.session(sequence).finish(reason, usage);
                self.close(sequence);
            }
            Effect::Reject { sequence, .. } => {
                assert!(!self.session(sequence).is_accepted, "{sequence} was accepted and rejected");
                self.close(sequence);
            }
            Effect::Fail { sequence, fault } => {
                let failures = self.failures;
                self.session(sequence).fail(&fault, failures, now);
                self.close(sequence);
            }
            Effect::GiveMasks(_) => panic!("that is the executor's"),
            Effect::WrongOutcome { .. } => {
                // That of the step behind a garbled one is refused too.
                self.refused += 1;
                assert!(self.refused <= 2 * self.garbled, "an outcome was refused that nobody garbled");
                self.awaits_refusal = false;
            }
        }
    }

    fn session(&mut self, sequence: SequenceId) -> &mut Session {
        assert!(!self.ended.contains(&sequence), "{sequence} hears something after its end");
        self.open.get_mut(&sequence).unwrap_or_else(|| panic!("{sequence} was never asked for"))
    }
}

impl Session {
    /// Hears how likely the next tokens of its prompt are.
    fn hear_prompt(&mut self, logprobs: &[TokenLogprobs]) {
        let id = self.request.id;
        assert!(self.is_accepted, "{id} was never accepted");
        assert!(self.request.sampling.prompt_logprobs.is_some(), "{id} did not ask for its prompt");
        let (scored, before) = &mut self.scored;
        for TokenLogprobs { chosen, .. } in logprobs {
            let token = self.request.prompt.get(*scored);
            let token = *token.unwrap_or_else(|| panic!("{id} has no token {scored} in its prompt"));
            assert_eq!(*chosen, likelihood(*before, token), "{id}: token {scored} is as likely as another");
            *before = content(*before, token);
            *scored += 1;
        }
    }

    /// Hears a token; answers what may come next, if it is guided.
    fn hear(&mut self, token: TokenId) -> Option<MaskGrant> {
        let (id, received) = (self.request.id, self.received);
        assert!(self.is_accepted, "{id} was never accepted");
        assert!(self.end.is_none(), "{id} goes on after its last token");
        assert!(self.credit > 0, "{id} has no room for a token");
        let wants_prompt = self.request.sampling.prompt_logprobs.is_some();
        let prompt = self.request.prompt.len();
        assert!(!wants_prompt || self.scored.0 == prompt, "{id} goes on before all of its prompt was told");
        let expected = match self.request.mask {
            Some(_) => says_within(self.content, &mask(self.content)),
            None => says(self.content),
        };
        assert_eq!(token, expected, "{id} said another token after {received}");
        self.content = content(self.content, token);
        self.received += 1;
        self.credit -= 1;
        self.end = if self.request.stop_tokens.contains(&token) {
            Some(FinishReason::Stop)
        } else {
            (self.received == self.request.max_tokens).then_some(FinishReason::Length)
        };
        let grant = MaskGrant { sequence: id, generated: self.received, mask: mask(self.content) };
        self.request.mask.is_some().then_some(grant)
    }

    fn finish(&mut self, reason: FinishReason, usage: Usage) {
        let id = self.request.id;
        assert!(self.end.is_some(), "{id} ended too early: {reason:?} after {} tokens", self.received);
        assert_eq!(self.end, Some(reason), "{id} ended for another reason");
        let heard = (self.request.prompt.len() as u32, self.received);
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), heard, "{id} counts other tokens");
        assert!(usage.cached_tokens < usage.prompt_tokens, "{id} computed nothing");
    }

    fn fail(&mut self, fault: &Fault, failures: u32, now: u64) {
        let id = self.request.id;
        assert!(self.is_accepted, "{id} was never accepted");
        match *fault {
            Fault::DeadlineExceeded { timeout } => {
                assert_eq!(Some(timeout), self.request.timeout, "{id} had another timeout");
                assert!(now >= self.arrived + timeout, "{id} failed before its deadline");
            }
            Fault::Step { .. } => {
                let seen = failures - self.failures;
                assert!(seen > u32::from(MAX_REPLAYS), "{id} failed after {seen} failures");
            }
            Fault::NoLongerFits { prompt_tokens, max_tokens, max_model_len } => {
                let asked = (self.request.prompt.len() as u32, self.request.max_tokens);
                assert_eq!((prompt_tokens, max_tokens), asked, "{id} asked for something else");
                assert!(prompt_tokens + max_tokens > max_model_len, "{id} fits still");
            }
            _ => panic!("{id}: {fault}"),
        }
    }
}
