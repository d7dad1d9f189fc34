//! A JSON object with nothing around it, or behind `<|python_tag|>`: Llama 3.1 to 3.3.
//!
//! The object is a call only at the beginning of an answer and if it has both a name that was offered and parameters.

use crate::syntax::{CallBody, CallSyntax, JsonName, JsonObject, List, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<|python_tag|>", ""),
    Wrap::NONE,
    "; ",
    CallBody::JsonObject(JsonObject {
        name: JsonName::Under { name_key: "name", arguments_key: "parameters" },
        id_key: None,
        list: List::None,
    }),
)
.or_bare('{');
