//! Elements between `<|open|>` and `<|close|>` with typed arguments: Kimi K3.

use crate::syntax::{CallBody, CallSyntax, Parameters, TypeAttribute, Wrap};

/// The section that holds content.
pub(super) const SILENT: &[&str] = &["<|open|>response<|sep|>", "<|close|>response<|sep|>"];

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
    Wrap::new("<|open|>call tool=\"", ""),
    "",
    CallBody::Parameters(Parameters {
        name: Wrap::new("", "\""),
        name_attributes: Some("<|sep|>"),
        key: Wrap::new("<|open|>argument key=\"", "\" type=\""),
        type_attribute: Some(TypeAttribute { string: "string", end: "\"<|sep|>" }),
        value: Wrap::new("", "<|close|>argument<|sep|>"),
        end: "<|close|>call<|sep|>",
        padding: None,
    }),
);
