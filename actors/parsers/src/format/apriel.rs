//! A JSON list in `<tool_calls>`: Apriel.

use crate::syntax::{CallBody, CallSyntax, JsonName, JsonObject, List, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<tool_calls>", "</tool_calls>"),
    Wrap::NONE,
    ", ",
    CallBody::JsonObject(JsonObject {
        name: JsonName::Under { name_key: "name", arguments_key: "arguments" },
        id_key: None,
        list: List::Brackets,
    }),
);
