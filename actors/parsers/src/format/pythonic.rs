//! Python calls in a list: Llama 4, with or without its tokens, and LFM 2 between its own.

use crate::syntax::{CallBody, CallSyntax, List, Pythonic, Wrap};

const BODY: CallBody = CallBody::Pythonic(Pythonic { list: List::Brackets });

/// Llama 4. Without its token a list is calls only at the beginning of an answer.
pub(super) const SYNTAX: CallSyntax =
    CallSyntax::new(Wrap::new("<|python_start|>", "<|python_end|>"), Wrap::NONE, ", ", BODY).or_bare('[');

/// LFM 2.
pub(super) const LFM2: CallSyntax =
    CallSyntax::new(Wrap::new("<|tool_call_start|>", "<|tool_call_end|>"), Wrap::NONE, ", ", BODY);
