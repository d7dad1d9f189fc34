//! `<|function_call|>` and a JSON object: GigaChat 3.1.

use crate::syntax::{CallBody, CallSyntax, JsonName, JsonObject, List, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::NONE,
    Wrap::new("<|function_call|>", ""),
    "",
    CallBody::JsonObject(JsonObject {
        name: JsonName::Under { name_key: "name", arguments_key: "arguments" },
        id_key: None,
        list: List::None,
    }),
);
