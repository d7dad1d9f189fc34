//! A JSON list between `<|START_ACTION|>` and `<|END_ACTION|>`: Command R7B and later.

use crate::syntax::{CallBody, CallSyntax, JsonName, JsonObject, List, Wrap};

/// The section that holds content.
pub(super) const SILENT: &[&str] =
    &["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"];

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<|START_ACTION|>", "<|END_ACTION|>"),
    Wrap::NONE,
    ", ",
    CallBody::JsonObject(JsonObject {
        name: JsonName::Under { name_key: "tool_name", arguments_key: "parameters" },
        id_key: Some("tool_call_id"),
        list: List::Brackets,
    }),
);
