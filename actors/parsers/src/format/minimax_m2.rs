//! `<invoke name="…">` with a `<parameter name="…">` for each argument: MiniMax M2.

use crate::syntax::{CallBody, CallSyntax, Parameters, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<minimax:tool_call>\n", "\n</minimax:tool_call>"),
    Wrap::new("<invoke name=\"", ""),
    "\n",
    CallBody::Parameters(Parameters {
        name: Wrap::new("", "\">\n"),
        name_attributes: None,
        key: Wrap::new("<parameter name=\"", "\">"),
        type_attribute: None,
        value: Wrap::new("", "</parameter>\n"),
        end: "</invoke>",
        padding: None,
    }),
);
