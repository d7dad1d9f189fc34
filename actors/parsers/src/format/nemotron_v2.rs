//! A JSON list in `<TOOLCALL>`: Nemotron Nano 2.

use crate::syntax::{CallSyntax, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::listed(Wrap::new("<TOOLCALL>", "</TOOLCALL>"));
