//! Channels and recipients: gpt-oss.

use crate::syntax::{CallBody, CallSyntax, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::NONE,
    Wrap::new("<|start|>assistant<|channel|>commentary to=functions.", "<|call|>"),
    "",
    CallBody::Channels,
);

/// End a call and a whole answer.
pub(super) const ENDS: &[&str] = &["<|return|>", "<|call|>"];
