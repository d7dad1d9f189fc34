//! `<|function_call|>` and a JSON object: GigaChat 3.1.

use crate::syntax::{CallBody, CallSyntax, JsonObject, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::NONE,
    Wrap::new("<|function_call|>", ""),
    "",
    CallBody::JsonObject(JsonObject::PLAIN),
);
