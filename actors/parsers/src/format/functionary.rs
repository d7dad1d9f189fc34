//! `<function=name>{…}</function>`: Functionary 3.1.

use crate::syntax::{CallBody, CallSyntax, HeadField, NameForm, NamedJson, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::NONE,
    Wrap::new("<function=", "</function>"),
    "",
    CallBody::NamedJson(NamedJson {
        head: &[(HeadField::Name, ">")],
        arguments: Wrap::NONE,
        name: NameForm::Plain,
    }),
);
