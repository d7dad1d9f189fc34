//! A JSON list of objects whose only key is the name of a tool: Apertus.

use crate::syntax::{CallBody, CallSyntax, JsonName, JsonObject, List, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<|tools_prefix|>", "<|tools_suffix|>"),
    Wrap::NONE,
    ", ",
    CallBody::JsonObject(JsonObject { name: JsonName::IsKey, id_key: None, list: List::Brackets }),
);
