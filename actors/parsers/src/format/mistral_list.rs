//! `[TOOL_CALLS]` and a JSON list: Mistral Nemo and its time.
//!
//! The id that a model writes behind its arguments comes too late for [`crate::Event::CallStarted`] and is dropped.

use crate::syntax::{CallBody, CallSyntax, JsonName, JsonObject, List, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("[TOOL_CALLS]", ""),
    Wrap::NONE,
    ", ",
    CallBody::JsonObject(JsonObject {
        name: JsonName::Under { name_key: "name", arguments_key: "arguments" },
        id_key: None,
        list: List::Brackets,
    }),
);
