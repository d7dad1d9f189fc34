//! `functools` and a JSON list: Firefunction 2.

use crate::syntax::{CallSyntax, Wrap};

pub(super) const SYNTAX: CallSyntax = CallSyntax::listed(Wrap::new("functools", ""));
