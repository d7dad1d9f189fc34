//! `<function=name>` with a `<parameter=key>` for each argument: Qwen 3 Coder, Qwen 3.5, Nemotron 3, Step 3.5.

use crate::syntax::{CallBody, CallSyntax, Parameters, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::NONE,
    Wrap::new("<tool_call>\n", "</tool_call>"),
    "\n",
    CallBody::Parameters(Parameters {
        name: Wrap::new("<function=", ">\n"),
        name_attributes: None,
        key: Wrap::new("<parameter=", ">"),
        type_attribute: None,
        value: Wrap::new("", "</parameter>\n"),
        end: "</function>\n",
        padding: Some(Wrap::new("\n", "\n</parameter>")),
    }),
);
