//! `[TOOL_CALLS]` and a JSON list: Mistral Nemo and its time.
//!
//! The id that a model writes behind its arguments comes too late for [`crate::Event::CallStarted`] and is dropped.

use crate::syntax::{CallSyntax, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::listed(Wrap::new("[TOOL_CALLS]", ""));
