//! `[TOOL_CALLS]` and a JSON list: Mistral Nemo and its time.
//!
//! The id that a model writes behind its arguments is not waited for: arguments are passed on as they come.

use crate::syntax::{CallSyntax, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::listed_with(Wrap::new("[TOOL_CALLS]", ""), Some("id"));
