//! The session actor: one for each sequence that a client asked for. The HTTP surface holds the other end.
//!
//! It turns tokens into [`Output`]s and puts them into the bounded channel that the client's answer is read from.
//! The scheduler may be ahead by the credit and no more: credit is renewed only while nothing waits for room in the
//! channel, so a slow client makes its sequence wait and memory does not grow. A dropped receiver is a client that
//! went away: the session ends at once, and a session that ends before its sequence cancels it.
//!
//! How an answer looks on the wire is not known here.

mod alignment;
mod allowance;
mod content;
mod guided;
mod output;
mod prompt;
mod reader;
mod state;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use actix::prelude::*;
use tokio::sync::mpsc::{self, error::TrySendError};
use troupe_protocol::{
    Fault, NewSequence, Priority, RequestPart, SamplingParams, SequenceEvent, SequenceId, TenantId, TokenId,
};

use crate::guide::Guide;
use crate::metrics;
use crate::scheduler::SchedulerCommand;
use crate::tokenizer::Tokenizer;

use guided::{Guided, Next};
pub use output::{
    Alternative, CallPart, End, FinishReason, Output, Part, Piece, PromptToken, ScoredToken, reason_name,
};
pub use reader::{Budget, CallLimit, Reading};
pub use state::SessionState;

/// Tokens that the scheduler may be ahead of a session.
pub const CREDIT: u32 = 32;
/// Outputs that wait in the channel of one answer for the client to take them.
pub const CHANNEL: usize = 16;
/// Credit is renewed in lots of this size, so that a grant does not travel with every token.
const GRANT: u32 = CREDIT / 2;

/// What the scheduler tells a session. Bounded by the credit that the session granted.
#[derive(Message)]
#[rtype(result = "()")]
pub struct SessionEvent(pub SequenceEvent);

/// What a client asked of one sequence, validated.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    /// Which of the answer's choices this is.
    pub choice: u32,
    /// Token ids of the prompt.
    pub prompt: Vec<TokenId>,
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// The most tokens to generate; at least one.
    pub max_tokens: u32,
    /// What is answered with.
    pub answer: AnswerKind,
    /// Tokens that end the text.
    pub stop_tokens: Vec<TokenId>,
    /// Strings that end the text and are not part of it. They are looked for in content, not in reasoning or calls.
    pub stop: Vec<String>,
    /// How reasoning and calls are told from content; all is content without it.
    pub reading: Option<Reading>,
    /// Present if the text is held to a grammar. A model that thinks first has one that waits until [`Guide::begin`].
    pub guide: Option<Guide>,
    /// Who asks, and how.
    pub admission: Admission,
    /// Which part of the client's request it is.
    pub part: RequestPart,
}

/// What a client is answered with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerKind {
    /// What is generated, after what is told of the prompt if [`SamplingParams::prompt_logprobs`] asks for that.
    #[default]
    Generated,
    /// What is told of the prompt alone: the one token that is generated after it is thrown away.
    Prompt,
}

/// What the sessions of one request share.
#[derive(Clone)]
pub struct SessionContext {
    /// The model's.
    pub tokenizer: Arc<Tokenizer>,
    /// Who decides.
    pub scheduler: Recipient<SchedulerCommand>,
    /// Where the answer goes.
    pub client: mpsc::Sender<Output>,
}

/// What the scheduler needs to know of a request besides its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Whose it is.
    pub tenant: TenantId,
    /// How urgent it is among its tenant's.
    pub priority: Priority,
    /// Microseconds after which nobody wants it any more.
    pub timeout: Option<u64>,
    /// Blocks are shared only between requests of the same salt.
    pub cache_salt: u64,
}

impl Default for Admission {
    fn default() -> Self {
        Self { tenant: TenantId::ANONYMOUS, priority: Priority::Normal, timeout: None, cache_salt: 0 }
    }
}

/// The session actor.
pub struct Session {
    id: SequenceId,
    choice: u32,
    state: SessionState,
    scheduler: Recipient<SchedulerCommand>,
    client: mpsc::Sender<Output>,
    /// What the channel had no room for. At most what as many tokens as the credit allows make, the acceptance, what is
    /// told of the prompt, and the end.
    backlog: VecDeque<Part>,
    awaits_room: bool,
    /// Tokens received and not yet granted anew.
    spent: u32,
    /// The scheduler is done with the sequence, or was told to be.
    settled: bool,
    /// The request's other sequences, until this one is taken.
    others: Option<(Vec<SessionRequest>, SessionContext)>,
    /// The sequence, until it is sent for admission.
    sequence: Option<NewSequence>,
    /// The sequence once more, if another may have to go on with its answer.
    origin: Option<NewSequence>,
    /// Present if the sequence is guided.
    guided: Option<Guided>,
    prompt_tokens: u32,
    admitted: Instant,
    last_token: Option<Instant>,
}

impl Session {
    /// Starts a session on this thread's arbiter and sends its sequence for admission. The `others` of the request start when
    /// that was taken, so that a request is taken or refused as a whole.
    pub fn start(request: SessionRequest, others: Vec<SessionRequest>, context: SessionContext) {
        let id = next_id();
        let state = SessionState::new(&request, &context.tokenizer);
        let may_continue = request.reading.as_ref().is_some_and(|reading| reading.budget.is_some());
        let sequence = NewSequence {
            id,
            tenant: request.admission.tenant,
            part: request.part,
            prompt: request.prompt,
            sampling: request.sampling,
            max_tokens: request.max_tokens,
            stop_tokens: request.stop_tokens,
            credit: CREDIT,
            priority: request.admission.priority,
            timeout: request.admission.timeout,
            cache_salt: request.admission.cache_salt,
            mask: None,
        };
        let session = Self {
            id,
            choice: request.choice,
            state,
            scheduler: context.scheduler.clone(),
            client: context.client.clone(),
            others: (!others.is_empty()).then_some((others, context)),
            backlog: VecDeque::new(),
            awaits_room: false,
            spent: 0,
            settled: false,
            prompt_tokens: sequence.prompt.len() as u32,
            guided: request.guide.map(|guide| Guided::new(guide, request.max_tokens)),
            origin: may_continue.then(|| sequence.clone()),
            sequence: Some(sequence),
            admitted: Instant::now(),
            last_token: None,
        };
        session.run();
    }

    fn run(self) {
        Self::create(|ctx| {
            // Tokens, acceptance and start before them, and the end after them.
            ctx.set_mailbox_capacity(CREDIT as usize + 3);
            self
        });
    }

    /// Goes on after tokens that were not all generated: as a new sequence and in a session of its own, so that what is
    /// still said of the old one is not taken for the new one's.
    fn continue_after(&mut self, tokens: &[TokenId], state: SessionState, ctx: &mut Context<Self>) {
        self.cancel();
        ctx.stop();
        let Some(mut sequence) = self.origin.take() else { return };
        let elapsed = u64::try_from(self.admitted.elapsed().as_micros()).unwrap_or(u64::MAX);
        sequence.id = next_id();
        sequence.part = RequestPart::Choice;
        sequence.sampling.prompt_logprobs = None;
        sequence.prompt.extend_from_slice(tokens);
        sequence.max_tokens -= tokens.len() as u32;
        sequence.timeout = sequence.timeout.map(|timeout| timeout.saturating_sub(elapsed).max(1));
        let guided = self.guided.take().map(|guided| guided.after_reasoning(sequence.max_tokens));
        let session = Self {
            id: sequence.id,
            choice: self.choice,
            state,
            scheduler: self.scheduler.clone(),
            client: self.client.clone(),
            others: None,
            backlog: std::mem::take(&mut self.backlog),
            awaits_room: false,
            spent: 0,
            settled: false,
            prompt_tokens: self.prompt_tokens,
            guided,
            origin: None,
            sequence: Some(sequence),
            admitted: self.admitted,
            last_token: self.last_token,
        };
        session.run();
    }

    fn record(&mut self, event: &SequenceEvent) {
        match event {
            SequenceEvent::Token(_) => {
                let now = Instant::now();
                match self.last_token.replace(now) {
                    None => metrics::first_token(self.prompt_tokens, now - self.admitted),
                    Some(before) => metrics::next_token(now - before),
                }
            }
            SequenceEvent::Accepted(_)
            | SequenceEvent::Started { .. }
            | SequenceEvent::Prompt(_)
            | SequenceEvent::Finished { .. } => {}
            SequenceEvent::Rejected(_) => metrics::rejected(),
            SequenceEvent::Failed(_) => metrics::failed(),
        }
    }

    /// Moves outputs into the channel as far as there is room, then renews the credit.
    fn deliver(&mut self, ctx: &mut Context<Self>) {
        while let Some(part) = self.backlog.pop_front() {
            match self.client.try_send(Output { choice: self.choice, part }) {
                Ok(()) => {}
                Err(TrySendError::Full(output)) => {
                    self.backlog.push_front(output.part);
                    return self.await_room(ctx);
                }
                Err(TrySendError::Closed(_)) => return ctx.stop(),
            }
        }
        if self.state.is_over() {
            ctx.stop();
        } else if self.spent >= GRANT {
            self.scheduler.do_send(SchedulerCommand::Grant { sequence: self.id, tokens: self.spent });
            self.spent = 0;
        }
    }

    fn await_room(&mut self, ctx: &mut Context<Self>) {
        if std::mem::replace(&mut self.awaits_room, true) {
            return;
        }
        let room = self.client.clone().reserve_owned();
        ctx.spawn(room.into_actor(self).map(|room, session, ctx| {
            session.awaits_room = false;
            match (room, session.backlog.pop_front()) {
                (Ok(permit), Some(part)) => {
                    permit.send(Output { choice: session.choice, part });
                    session.deliver(ctx);
                }
                (Ok(_), None) => {}
                (Err(_), _) => ctx.stop(),
            }
        }));
    }

    /// Tells the scheduler what may come after `token`; answers what the answer ends with, if it does.
    fn guide_on(&mut self, token: TokenId, was_reasoning: bool) -> Vec<Part> {
        let Some(guided) = &mut self.guided else { return Vec::new() };
        let reasoning_ended = was_reasoning && !self.state.is_in_reasoning();
        match guided.take(token, reasoning_ended) {
            Ok(Next::Mask(generated, mask)) => {
                self.scheduler.do_send(SchedulerCommand::Mask { sequence: self.id, generated, mask });
                Vec::new()
            }
            Ok(Next::Nothing) => Vec::new(),
            Ok(Next::Complete) => self.state.complete(),
            Err(error) => {
                metrics::failed();
                self.state.push(SequenceEvent::Failed(error.into()))
            }
        }
    }

    /// The sequence has said all that is wanted of it, but the scheduler does not know that.
    fn cancel(&mut self) {
        self.settled = true;
        self.scheduler.do_send(SchedulerCommand::Cancel(self.id));
    }
}

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if !self.scheduler.connected() {
            let gone = Fault::ExecutorLost { message: "the scheduler is gone".to_owned() };
            return self.handle(SessionEvent(SequenceEvent::Failed(gone)), ctx);
        }
        if let Some(mut sequence) = self.sequence.take() {
            match self.guided.as_mut().map(Guided::first).transpose() {
                Ok(mask) => sequence.mask = mask,
                Err(error) => return self.handle(SessionEvent(SequenceEvent::Failed(error.into())), ctx),
            }
            let events = ctx.address().recipient();
            self.scheduler.do_send(SchedulerCommand::Admit { sequence, events });
        }
        let client = self.client.clone();
        let gone = async move { client.closed().await };
        ctx.spawn(gone.into_actor(self).map(|(), _, ctx| ctx.stop()));
        self.deliver(ctx);
    }
}

impl Handler<SessionEvent> for Session {
    type Result = ();

    fn handle(&mut self, SessionEvent(event): SessionEvent, ctx: &mut Self::Context) {
        if self.state.is_over() {
            return;
        }
        self.record(&event);
        let (mut token, was_reasoning) = (None, self.state.is_in_reasoning());
        match &event {
            SequenceEvent::Accepted(_) => {
                if let Some((others, context)) = self.others.take() {
                    others.into_iter().for_each(|other| Self::start(other, Vec::new(), context.clone()));
                }
            }
            SequenceEvent::Started { .. } | SequenceEvent::Prompt(_) => {}
            SequenceEvent::Token(sampled) => {
                self.spent += 1;
                token = Some(sampled.id);
            }
            SequenceEvent::Finished { .. } | SequenceEvent::Rejected(_) | SequenceEvent::Failed(_) => {
                self.settled = true;
            }
        }
        self.backlog.extend(self.state.push(event));
        if let Some((state, tokens)) = self.state.take_continuation() {
            return self.continue_after(&tokens, state, ctx);
        }
        if let Some(token) = token.filter(|_| !self.state.is_over()) {
            let last = self.guide_on(token, was_reasoning);
            self.backlog.extend(last);
        }
        if self.state.is_over() {
            if let Some(Part::End(End::Finished { reason, usage, .. })) = self.backlog.back() {
                metrics::finished(reason_name(*reason), *usage, self.admitted.elapsed());
            }
            if !self.settled {
                self.cancel();
            }
        }
        self.deliver(ctx);
    }
}

impl Drop for Session {
    /// However a session ends, its sequence does not outlive it.
    fn drop(&mut self) {
        if !self.settled {
            // Counted first: whoever sees that the sequence is gone finds it in the count.
            metrics::cancelled();
            self.cancel();
        }
    }
}

/// An id that no other sequence of this process has.
fn next_id() -> SequenceId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    SequenceId(NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests;
