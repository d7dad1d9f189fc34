//! A JSON list in `<TOOLCALL>`: Nemotron Nano 2.

use crate::syntax::{CallBody, CallSyntax, JsonName, JsonObject, List, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<TOOLCALL>", "</TOOLCALL>"),
    Wrap::NONE,
    ", ",
    CallBody::JsonObject(JsonObject {
        name: JsonName::Under { name_key: "name", arguments_key: "arguments" },
        id_key: None,
        list: List::Brackets,
    }),
);
