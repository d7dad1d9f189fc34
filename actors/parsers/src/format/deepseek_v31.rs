//! A header with the name, then the bare arguments: DeepSeek V3.1.

use crate::syntax::{CallBody, CallSyntax, HeadField, NameForm, NamedJson, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::new("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    Wrap::new("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
    "",
    CallBody::NamedJson(NamedJson {
        head: &[(HeadField::Name, "<｜tool▁sep｜>")],
        arguments: Wrap::NONE,
        name: NameForm::Plain,
    }),
);
