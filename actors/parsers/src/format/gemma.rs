//! `call:name{key:value}` between tokens (Gemma 4, FunctionGemma), and a block of Python calls (Gemma 3).

use crate::syntax::{CallBody, CallSyntax, List, Pythonic, Wrap};

/// Gemma 4.
pub(super) const GEMMA4: CallSyntax = CallSyntax::new(
    Wrap::NONE,
    Wrap::new("<|tool_call>", "<tool_call|>"),
    "",
    CallBody::Braced { quote: "<|\"|>" },
);

/// Begins what a tool says.
pub(super) const GEMMA4_ENDS: &[&str] = &["<|tool_response>"];

/// FunctionGemma.
pub(super) const FUNCTION_GEMMA: CallSyntax = CallSyntax::new(
    Wrap::NONE,
    Wrap::new("<start_function_call>", "<end_function_call>"),
    "",
    CallBody::Braced { quote: "<escape>" },
);

/// Begins what a tool says.
pub(super) const FUNCTION_GEMMA_ENDS: &[&str] = &["<start_function_response>"];

/// Gemma 3 has no tokens for calls; prompts ask it for a block like this.
pub(super) const TOOL_CODE: CallSyntax = CallSyntax::new(
    Wrap::new("```tool_code\n", "\n```"),
    Wrap::NONE,
    "\n",
    CallBody::Pythonic(Pythonic { list: List::None }),
);
