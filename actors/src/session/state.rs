//! A session without its actor: events in, parts of the answer out.

use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;

use troupe_protocol::{FinishReason as SequenceEnd, SampledToken, SequenceEvent, TokenId, Usage};

use super::allowance::Allowance;
use super::content::Content;
use super::guided::Guided;
use super::prompt::{PromptReader, score};
use super::reader::{Decoded, Read, Reader};
use super::{AnswerKind, CallLimit, CallPart, End, FinishReason, Part, Piece, SessionRequest};
use crate::guide::Guide;
use crate::tokenizer::{Detokenizer, SpecialText, StopMatcher, Tokenizer};

/// Detokenises, tells content from reasoning and calls, looks for stop strings in the content, and keeps each token's
/// log-probability with its text. Tokens of calls and of tags are not reported.
///
/// Holds back an unfinished character, what may become a stop string, and what a parser holds back.
#[derive(Debug)]
pub struct SessionState {
    tokenizer: Arc<Tokenizer>,
    stop_tokens: Vec<TokenId>,
    /// Tokens before which no stop string is looked for.
    min_tokens: u32,
    usage: Usage,
    text: Text,
    /// Of reasoning, until it is used up.
    allowance: Option<Allowance>,
    /// Of a client that wants its prompt told.
    prompt: Option<PromptReader>,
    /// Nothing that is generated is part of the answer.
    is_prompt_only: bool,
    /// The sequence at hand goes on with the answer of one before it.
    is_continued: bool,
}

/// Where the text is made, for as long as there is more to come.
#[derive(Debug)]
enum Text {
    Open(Box<Open>),
    Over,
}

#[derive(Debug)]
struct Open {
    detokenizer: Detokenizer,
    reader: Reader,
    sorter: Sorter,
}

/// Makes parts of what was read.
#[derive(Debug)]
struct Sorter {
    content: Content,
    /// Characters of reasoning given out.
    reasoned: usize,
    /// The stop string that ended the content.
    matched_stop: Option<usize>,
    /// How a text ends that a stop string cuts.
    end_of_cut: SequenceEnd,
    /// Whether a stop string counts: it does after `min_tokens`.
    may_stop: bool,
    call_limit: CallLimit,
    finished_calls: usize,
    broken_calls: usize,
    parts: Vec<Part>,
}

impl SessionState {
    /// Before the first event.
    pub fn new(request: &SessionRequest, tokenizer: &Arc<Tokenizer>) -> Self {
        let stops = StopMatcher::new(request.stop.iter().map(String::as_str));
        let reading = request.reading.as_ref();
        Self {
            tokenizer: Arc::clone(tokenizer),
            stop_tokens: request.stop_tokens.clone(),
            min_tokens: request
                .sampling
                .ban
                .as_ref()
                .map_or(0, |ban| ban.before.saturating_sub(request.prompt.len() as u32)),
            usage: Usage { prompt_tokens: request.prompt.len() as u32, ..Usage::default() },
            allowance: Allowance::of(request),
            prompt: request.sampling.prompt_logprobs.map(|_| PromptReader::new(request.prompt.clone())),
            is_prompt_only: request.answer == AnswerKind::Prompt,
            is_continued: false,
            text: Text::Open(Box::new(Open {
                detokenizer: Detokenizer::new(Arc::clone(tokenizer), SpecialText::Skip),
                reader: Reader::new(reading),
                sorter: Sorter::new(
                    stops,
                    reading.map(|reading| reading.calls).unwrap_or_default(),
                    request.guide.as_ref(),
                ),
            })),
        }
    }

    /// The tokens of the answer so far, once, if they are not all generated: its reasoning was closed. A sequence whose
    /// prompt ends in them goes on with the answer; its events are for the state that is returned, and this one is over.
    pub fn take_continuation(&mut self) -> Option<(Self, Vec<TokenId>)> {
        let tokens = self.allowance.as_mut().and_then(Allowance::take_reached)?;
        self.allowance = None;
        let rest = Self {
            tokenizer: Arc::clone(&self.tokenizer),
            stop_tokens: mem::take(&mut self.stop_tokens),
            min_tokens: self.min_tokens,
            usage: self.usage,
            text: mem::replace(&mut self.text, Text::Over),
            allowance: None,
            prompt: None,
            is_prompt_only: false,
            is_continued: true,
        };
        Some((rest, tokens))
    }

    /// Whether the end was given out. Later events change nothing.
    pub fn is_over(&self) -> bool {
        matches!(self.text, Text::Over)
    }

    /// Takes an event; gives what it makes final, in order.
    pub fn push(&mut self, event: SequenceEvent) -> Vec<Part> {
        if self.is_over() {
            return Vec::new();
        }
        match event {
            SequenceEvent::Accepted(_) | SequenceEvent::Started { .. } if self.is_continued => Vec::new(),
            SequenceEvent::Accepted(rates) => vec![Part::Accepted(rates)],
            SequenceEvent::Started { cached_tokens } => {
                self.usage.cached_tokens = cached_tokens;
                let first = self.prompt.as_mut().and_then(|prompt| prompt.first(&self.tokenizer));
                first.map(|token| Part::Prompt(vec![token])).into_iter().collect()
            }
            SequenceEvent::Prompt(logprobs) => {
                let read = |prompt: &mut PromptReader| prompt.read(&logprobs, &self.tokenizer);
                self.prompt.as_mut().map(read).map(Part::Prompt).into_iter().collect()
            }
            SequenceEvent::Token(_) | SequenceEvent::Finished { .. } if self.is_prompt_only => {
                self.finish(SequenceEnd::Length, self.usage)
            }
            SequenceEvent::Token(token) => self.generated(&token),
            SequenceEvent::Finished { reason, usage } => self.finish(reason, usage),
            SequenceEvent::Rejected(reason) => self.end(Vec::new(), End::Rejected(reason)),
            SequenceEvent::Failed(fault) => self.end(Vec::new(), End::Failed(fault)),
        }
    }

    /// The text is complete, whatever the sequence would go on with.
    pub fn complete(&mut self) -> Vec<Part> {
        self.finish(SequenceEnd::Stop, self.usage)
    }

    /// Whether the next token belongs to the model's reasoning, as far as is known.
    pub fn is_in_reasoning(&self) -> bool {
        matches!(&self.text, Text::Open(open) if open.reader.is_in_reasoning())
    }

    fn generated(&mut self, token: &SampledToken) -> Vec<Part> {
        let mut parts = self.push_token(token);
        let Text::Open(open) = &self.text else { return parts };
        let is_in_reasoning = open.reader.is_in_reasoning();
        let reached = self.allowance.as_mut().filter(|_| is_in_reasoning);
        let end = reached.and_then(|allowance| allowance.close(self.usage.reasoning_tokens));
        let Some(end) = end else { return parts };
        for id in end {
            parts.extend(self.push_token(&SampledToken { id, logprobs: None }));
        }
        if let Text::Open(open) = &mut self.text {
            open.reader.was_closed();
        }
        parts
    }

    fn push_token(&mut self, token: &SampledToken) -> Vec<Part> {
        if let Some(allowance) = &mut self.allowance {
            allowance.book(token.id);
        }
        let scored = token.logprobs.as_ref().map(|logprobs| score(token.id, logprobs, &self.tokenizer));
        let Text::Open(open) = &mut self.text else {
            return Vec::new();
        };
        self.usage.completion_tokens += 1;
        self.usage.reasoning_tokens += u32::from(open.reader.is_in_reasoning());
        let control = if self.tokenizer.is_special(token.id) {
            self.tokenizer.token_bytes(token.id).and_then(|bytes| std::str::from_utf8(bytes).ok())
        } else {
            None
        };
        let read = if self.stop_tokens.contains(&token.id) {
            // It has no text, and `Finished` is next.
            open.reader.push_last(control)
        } else {
            open.reader.push(Decoded { text: open.detokenizer.push(token.id), control, scored })
        };
        open.sorter.may_stop = self.usage.completion_tokens > self.min_tokens;
        let flow = open.sorter.sort(read);
        let parts = mem::take(&mut open.sorter.parts);
        match flow {
            ControlFlow::Continue(()) => parts,
            ControlFlow::Break(reason) => {
                let matched_stop = open.sorter.matched_stop;
                self.end(parts, End::Finished { reason, usage: self.usage, matched_stop })
            }
        }
    }

    fn finish(&mut self, reason: SequenceEnd, usage: Usage) -> Vec<Part> {
        let Text::Open(open) = mem::replace(&mut self.text, Text::Over) else {
            return Vec::new();
        };
        let Open { detokenizer, reader, mut sorter } = *open;
        let flow = sorter.sort(reader.finish(detokenizer.finish(), reason));
        let matched_stop = sorter.matched_stop;
        let (reason, parts) = match flow {
            ControlFlow::Break(reason) => (reason, sorter.parts),
            ControlFlow::Continue(()) => (sorter.reason(reason), sorter.finish()),
        };
        let usage = match self.is_continued {
            // The sequence's own prompt is part of the answer.
            true => self.usage,
            false => Usage { reasoning_tokens: self.usage.reasoning_tokens, ..usage },
        };
        self.end(parts, End::Finished { reason, usage, matched_stop })
    }

    fn end(&mut self, mut parts: Vec<Part>, end: End) -> Vec<Part> {
        self.text = Text::Over;
        parts.push(Part::End(end));
        parts
    }
}

impl Sorter {
    fn new(stops: StopMatcher, call_limit: CallLimit, guide: Option<&Guide>) -> Self {
        Self {
            content: Content::new(stops),
            reasoned: 0,
            matched_stop: None,
            end_of_cut: Guided::reason_of_cut(guide),
            may_stop: true,
            call_limit,
            finished_calls: 0,
            broken_calls: 0,
            parts: Vec::new(),
        }
    }

    /// Takes what was read; breaks where the answer ends with it.
    fn sort(&mut self, read: Vec<Read>) -> ControlFlow<FinishReason> {
        read.into_iter().try_for_each(|read| match read {
            Read::Content(piece) => self.say(piece),
            Read::Reasoning(piece) => {
                self.interrupt();
                self.think(piece);
                ControlFlow::Continue(())
            }
            Read::Call(part) => {
                self.interrupt();
                self.call(part)
            }
        })
    }

    fn say(&mut self, piece: Piece) -> ControlFlow<FinishReason> {
        let said = self.content.push(piece, self.may_stop);
        self.parts.extend(said.piece.map(Part::Text));
        self.matched_stop = said.matched_stop;
        if said.matched_stop.is_some() {
            ControlFlow::Break(self.reason(self.end_of_cut))
        } else {
            ControlFlow::Continue(())
        }
    }

    fn think(&mut self, Piece { text, mut tokens }: Piece) {
        tokens.iter_mut().for_each(|token| token.offset += self.reasoned);
        self.reasoned += text.chars().count();
        self.parts.push(Part::Reasoning(Piece { text, tokens }));
    }

    fn call(&mut self, part: CallPart) -> ControlFlow<FinishReason> {
        let is_finished = matches!(part, CallPart::Finished { .. });
        self.finished_calls += usize::from(is_finished);
        self.broken_calls += usize::from(matches!(part, CallPart::Broken { .. }));
        self.parts.push(Part::Call(part));
        match self.call_limit {
            CallLimit::One if is_finished => ControlFlow::Break(self.reason(SequenceEnd::Stop)),
            CallLimit::One | CallLimit::Any => ControlFlow::Continue(()),
        }
    }

    fn interrupt(&mut self) {
        self.parts.extend(self.content.interrupt().map(Part::Text));
    }

    /// Why the answer ended, if its sequence ended so. Half a call is nothing to act on.
    fn reason(&self, end: SequenceEnd) -> FinishReason {
        match (end, self.finished_calls, self.broken_calls) {
            (SequenceEnd::Length, _, _) => FinishReason::Length,
            (SequenceEnd::Stop, 1.., 0) => FinishReason::ToolCalls,
            (SequenceEnd::Stop, _, _) => FinishReason::Stop,
        }
    }

    /// The last parts.
    fn finish(self) -> Vec<Part> {
        let Self { content, mut parts, .. } = self;
        parts.extend(content.finish().map(Part::Text));
        parts
    }
}

#[cfg(test)]
mod tests;
