//! What goes into a parser and what comes out.

/// A piece of what a model generated. Pieces may end anywhere, but for a control token, which is one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text of ordinary tokens.
    Text(&'a str),
    /// The spelling of one control token.
    Control(&'a str),
}

/// A typed part of the output, in the order of generation.
///
/// Neighbours of the same kind continue each other; where one ends and the next begins depends on the pieces pushed,
/// what they add up to does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Text for the reader of the answer.
    Content(String),
    /// Text of the model's reasoning.
    Reasoning(String),
    /// A call begins. Its name is one of the offered tools'.
    CallStarted {
        /// Counts the calls of this answer from zero.
        index: usize,
        /// The model's own id of the call, where its format has one and the model wrote it ahead of the arguments.
        id: Option<String>,
        /// The tool's name.
        name: String,
    },
    /// More of a call's arguments; the fragments of a finished call add up to the text of a JSON object.
    Arguments {
        /// Whose arguments.
        index: usize,
        /// JSON text.
        fragment: String,
    },
    /// A call is whole.
    CallFinished {
        /// Which call.
        index: usize,
    },
    /// A call that had started will never be whole. Its fragments add up to the beginning of a JSON object.
    CallBroken {
        /// Which call.
        index: usize,
        /// Why.
        reason: Broken,
    },
}

/// Why a call that had started will never be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Generation ended in it.
    CutOff,
    /// Its arguments left their format. What follows in the output is content.
    Malformed,
}

/// Where generation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// After content, after a call, or before anything.
    Complete,
    /// In a reasoning section that was not closed.
    InReasoning,
    /// Between the marker that begins a call and the point where it was clear that it is one.
    ///
    /// The text was not reported in any event. After `length` it is the beginning of a call that nobody can use;
    /// after `stop` it belongs to the content, since the model did not mean to go on.
    InCallHead {
        /// The text, markers included.
        text: String,
    },
    /// In the arguments of a call, which was reported as broken.
    InCall {
        /// Which call.
        index: usize,
    },
}
