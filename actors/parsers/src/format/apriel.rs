//! A JSON list in `<tool_calls>`: Apriel.

use crate::syntax::{CallSyntax, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::listed(Wrap::new("<tool_calls>", "</tool_calls>"));
