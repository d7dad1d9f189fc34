//! What a session says to the one who answers the client.

use troupe_protocol::{Fault, RateStatuses, RejectReason, Usage};

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Which of the answer's choices.
    pub choice: u32,
    /// What there is of it.
    pub part: Part,
}

/// That it was accepted, the prompt if it is wanted, any number of pieces, then one end; or an end alone.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The scheduler took it. This is what its tenant's limits leave.
    Accepted(RateStatuses),
    /// More of the prompt's tokens, from the first on.
    Prompt(Vec<PromptToken>),
    /// More content. The pieces of a choice concatenate to the whole of it.
    Text(Piece),
    /// More of the model's reasoning. The pieces of a choice concatenate to the whole of it.
    Reasoning(Piece),
    /// More of a tool call.
    Call(CallPart),
    /// Nothing follows.
    End(End),
}

/// A part of a tool call. Calls of a choice come one after the other, counted from zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallPart {
    /// A call of one of the offered tools begins.
    Started {
        /// Which call.
        index: usize,
        /// The model's id of it, else one that no other call has.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of its arguments; the fragments of a finished call add up to the text of a JSON object.
    Arguments {
        /// Which call.
        index: usize,
        /// JSON text.
        fragment: String,
    },
    /// It is whole.
    Finished {
        /// Which call.
        index: usize,
    },
    /// It will never be whole: its fragments add up to the beginning of a JSON object.
    Broken {
        /// Which call.
        index: usize,
    },
}

/// Text that is final, with the tokens that it came from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// Whole characters. May be empty if only tokens are reported.
    pub text: String,
    /// The tokens that begin in this text, if the client asked for log-probabilities.
    pub tokens: Vec<ScoredToken>,
}

/// A token of the prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptToken {
    /// What the token stands for; possibly part of a character.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability. The first token has none, since nothing comes before it.
    pub logprob: Option<f32>,
    /// The most likely tokens at its place, most likely first.
    pub top: Vec<Alternative>,
}

/// A generated token with its log-probability.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredToken {
    /// What was chosen.
    pub chosen: Alternative,
    /// The most likely tokens at this position, most likely first, each a different token.
    pub top: Vec<Alternative>,
    /// Characters before this token in the choice's text, or in its reasoning, whichever it is part of.
    pub offset: usize,
}

/// A token that was, or could have been, chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// What the token stands for; possibly part of a character.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability.
    pub logprob: f32,
}

impl Alternative {
    /// The token as text, with U+FFFD where it holds part of a character.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// How a choice ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// As it should.
    Finished {
        /// Why.
        reason: FinishReason,
        /// What it took.
        usage: Usage,
        /// Which of the request's stop strings ended it, if one did.
        matched_stop: Option<usize>,
    },
    /// It was not taken.
    Rejected(RejectReason),
    /// It could not be completed.
    Failed(Fault),
}

/// Why a choice ended as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it, or a stop string did.
    Stop,
    /// `max_tokens` were generated.
    Length,
    /// It asks for tools: it ended by itself, and all of its calls, one at least, are whole.
    ToolCalls,
}

/// A reason as OpenAI's clients and the metrics spell it.
pub fn reason_name(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
    }
}
