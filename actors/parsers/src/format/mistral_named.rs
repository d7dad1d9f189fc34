//! `[TOOL_CALLS]name[CALL_ID]id[ARGS]{…}`, the id often left out: Mistral Small 3.2, Ministral, Devstral.

use crate::syntax::{CallBody, CallSyntax, HeadField, NameForm, NamedJson, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::new(
    Wrap::NONE,
    Wrap::new("[TOOL_CALLS]", ""),
    "",
    CallBody::NamedJson(NamedJson {
        head: &[(HeadField::Name, "[CALL_ID]"), (HeadField::Id, "[ARGS]")],
        arguments: Wrap::NONE,
        name: NameForm::Plain,
    }),
);
