//! JSON objects in `<tool_calls>`, one a line: MiniMax M1.

use crate::syntax::{CallBody, CallSyntax, JsonObject, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<tool_calls>\n", "\n</tool_calls>"),
    Wrap::NONE,
    "\n",
    CallBody::JsonObject(JsonObject::PLAIN),
);
