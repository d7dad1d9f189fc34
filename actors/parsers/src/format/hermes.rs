//! `<tool_call>` and a JSON object: Hermes, Qwen 2.5 and 3, Granite 4, and many more.

use crate::syntax::{CallBody, CallSyntax, JsonObject, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::NONE,
    Wrap::new("<tool_call>\n", "\n</tool_call>"),
    "\n",
    CallBody::JsonObject(JsonObject::PLAIN),
);
