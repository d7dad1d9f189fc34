//! JSON objects in `<tool_calls>`, one a line: MiniMax M1.

use crate::syntax::{CallBody, CallSyntax, JsonName, JsonObject, List, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<tool_calls>\n", "\n</tool_calls>"),
    Wrap::NONE,
    "\n",
    CallBody::JsonObject(JsonObject {
        name: JsonName::Under { name_key: "name", arguments_key: "arguments" },
        id_key: None,
        list: List::None,
    }),
);
