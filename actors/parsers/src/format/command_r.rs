//! `Action:` and a JSON list in a fence: Command R and R+.

use crate::syntax::{CallBody, CallSyntax, JsonName, JsonObject, List, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("Action:\n```json\n", "\n```"),
    Wrap::NONE,
    ", ",
    CallBody::JsonObject(JsonObject {
        name: JsonName::Under { name_key: "tool_name", arguments_key: "parameters" },
        id_key: None,
        list: List::Brackets,
    }),
);
