//! A name, then `<arg_key>` and `<arg_value>` in turn: GLM 4.5 to 4.7, Ling, Laguna, Spark.

use crate::syntax::{CallBody, CallSyntax, Parameters, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::NONE,
    Wrap::new("<tool_call>", "</tool_call>"),
    "\n",
    CallBody::Parameters(Parameters {
        name: Wrap::new("", ""),
        name_attributes: None,
        key: Wrap::new("<arg_key>", "</arg_key>"),
        type_attribute: None,
        value: Wrap::new("<arg_value>", "</arg_value>"),
        end: "",
        padding: None,
    }),
);
