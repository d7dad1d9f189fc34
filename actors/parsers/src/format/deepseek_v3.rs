//! A header with the type, the name, and the arguments in a fence: DeepSeek V3 and R1.

use crate::syntax::{CallBody, CallSyntax, HeadField, NameForm, NamedJson, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    Wrap::new("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
    "\n",
    CallBody::NamedJson(NamedJson {
        head: &[(HeadField::Constant("function"), "<｜tool▁sep｜>"), (HeadField::Name, "\n")],
        arguments: Wrap::new("```json\n", "\n```"),
        name: NameForm::Plain,
    }),
);
