//! An id, a name, and the arguments, each behind its token: Solar Open.

use crate::syntax::{CallBody, CallSyntax, HeadField, NameForm, NamedJson, Wrap};

/// What stands around content and ahead of each message.
pub(super) const SILENT: &[&str] = &["<|begin|>assistant", "<|content|>"];

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<|tool_calls|>", "<|calls|>"),
    Wrap::new("<|tool_call:begin|>", "<|tool_call:end|>"),
    "",
    CallBody::NamedJson(NamedJson {
        head: &[(HeadField::Id, "<|tool_call:name|>"), (HeadField::Name, "<|tool_call:args|>")],
        arguments: Wrap::NONE,
        name: NameForm::Plain,
    }),
);
