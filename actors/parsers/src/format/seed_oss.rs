//! As Qwen 3 Coder, but in `<seed:tool_call>` and with no line feeds around values: Seed OSS.

use crate::syntax::{CallBody, CallSyntax, Parameters, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::NONE,
    Wrap::new("<seed:tool_call>\n", "</seed:tool_call>"),
    "\n",
    CallBody::Parameters(Parameters {
        name: Wrap::new("<function=", ">\n"),
        name_attributes: None,
        key: Wrap::new("<parameter=", ">"),
        type_attribute: None,
        value: Wrap::new("", "</parameter>"),
        end: "</function>\n",
        padding: None,
    }),
);
