//! `<function name="…">` with a `<param name="…">` for each argument: MiniCPM 5.

use crate::syntax::{CallBody, CallSyntax, Parameters, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::NONE,
    Wrap::new("<function name=\"", ""),
    "\n",
    CallBody::Parameters(Parameters {
        name: Wrap::new("", "\">"),
        name_attributes: None,
        key: Wrap::new("<param name=\"", "\">"),
        type_attribute: None,
        value: Wrap::new("", "</param>"),
        end: "</function>",
        padding: Some(Wrap::new("<![CDATA[", "]]></param>")),
    }),
);
