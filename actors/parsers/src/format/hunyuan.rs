//! As GLM, but with a suffix to each tag and a tag behind the name: Hunyuan 3.

use crate::syntax::{CallBody, CallSyntax, Parameters, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<tool_calls:opensource>\n", "\n</tool_calls:opensource>"),
    Wrap::new("<tool_call:opensource>", "</tool_call:opensource>"),
    "\n",
    CallBody::Parameters(Parameters {
        name: Wrap::new("", "<tool_sep:opensource>\n"),
        name_attributes: None,
        key: Wrap::new("<arg_key:opensource>", "</arg_key:opensource>\n"),
        type_attribute: None,
        value: Wrap::new("<arg_value:opensource>", "</arg_value:opensource>\n"),
        end: "",
        padding: None,
    }),
);
