//! `[TOOL_CALLS]` and a JSON list, each object with an id behind its arguments: Mistral Nemo and its time.

use crate::syntax::{CallSyntax, JsonId, Wrap};

pub(super) const SYNTAX: CallSyntax =
    CallSyntax::listed_with(Wrap::new("[TOOL_CALLS]", ""), JsonId::Behind("id"));
