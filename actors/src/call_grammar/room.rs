//! How much a grammar may still hold. A schema that refers to itself, or many optional arguments, would make it huge.

use std::cell::Cell;

use serde_json::Value as Json;

use super::Term;
use super::values::in_schema;

/// What any term takes beside the text of the client's that it holds.
const TERM_BYTES: usize = 4;

/// Bytes that are left.
pub(super) struct Room(Cell<usize>);

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Cell::new(bytes))
    }

    /// Takes room for a term; none if there is not enough.
    pub(super) fn take(&self, bytes: usize) -> Option<()> {
        self.0.set(self.0.get().checked_sub(bytes.saturating_add(TERM_BYTES))?);
        Some(())
    }

    /// JSON by a part of a schema, if there is room for it.
    pub(super) fn json(&self, root: &Json, schema: &Json) -> Option<Term> {
        let schema = in_schema(root, schema);
        self.take(schema.to_string().len())?;
        Some(Term::Json(schema))
    }
}
