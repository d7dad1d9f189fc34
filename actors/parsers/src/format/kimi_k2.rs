//! `functions.name:0` as header and id: Kimi K2.

use crate::syntax::{CallBody, CallSyntax, HeadField, NameForm, NamedJson, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    Wrap::new("<|tool_call_begin|>", "<|tool_call_end|>"),
    "",
    CallBody::NamedJson(NamedJson {
        head: &[(HeadField::Name, "<|tool_call_argument_begin|>")],
        arguments: Wrap::NONE,
        name: NameForm::Numbered,
    }),
);
