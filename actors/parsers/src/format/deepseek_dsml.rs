//! `<｜DSML｜invoke name="…">` with typed parameters: DeepSeek V3.2, and V4 with another name of the section.

use crate::syntax::{CallBody, CallSyntax, Parameters, TypeAttribute, Wrap};

/// V3.2.
pub(super) const SYNTAX: CallSyntax =
    in_section(Wrap::new("<｜DSML｜function_calls>\n", "\n</｜DSML｜function_calls>"));

/// V4.
pub(super) const SYNTAX_V4: CallSyntax =
    in_section(Wrap::new("<｜DSML｜tool_calls>\n", "\n</｜DSML｜tool_calls>"));

const fn in_section(section: Wrap) -> CallSyntax {
    CallSyntax::new(
        section,
        Wrap::new("<｜DSML｜invoke name=\"", ""),
        "\n",
        CallBody::Parameters(Parameters {
            name: Wrap::new("", "\">\n"),
            name_attributes: None,
            key: Wrap::new("<｜DSML｜parameter name=\"", "\" string=\""),
            type_attribute: Some(TypeAttribute { string: "true", end: "\">" }),
            value: Wrap::new("", "</｜DSML｜parameter>\n"),
            end: "</｜DSML｜invoke>",
            padding: None,
        }),
    )
}
