//! `<|tool_call|>` and a JSON list: Granite 3.

use crate::syntax::{CallSyntax, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::listed(Wrap::new("<|tool_call|>", ""));
