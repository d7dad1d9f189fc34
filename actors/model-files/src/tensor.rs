//! Tensors as a reader sees them: Hugging Face names, shapes and row order, whatever the file stores.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use crate::error::{ModelFileError, Result};
use crate::format::TensorFormat;
use crate::mapped::MappedFile;

/// How the rows (the outermost dimension) of a stored tensor map to Hugging Face order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowOrder {
    /// The file's order is the order.
    AsStored,
    /// llama.cpp's converter interleaved the two halves of every head for its rotary embedding: row
    /// `half * width/2 + j` of a head lies at `2 * j + half`. `head_rows` is even and divides the rows.
    Interleaved {
        /// Rows of one head.
        head_rows: usize,
    },
}

impl RowOrder {
    /// The stored row that is row `row` in Hugging Face order.
    fn stored_row(self, row: usize) -> usize {
        match self {
            Self::AsStored => row,
            Self::Interleaved { head_rows } => {
                let (head, inner) = (row / head_rows, row % head_rows);
                let half_rows = head_rows / 2;
                head * head_rows + 2 * (inner % half_rows) + inner / half_rows
            }
        }
    }
}

/// What the directory of a weights file says about one tensor, checked.
/// Invariant: `span` lies in the file and is `format.byte_len(shape)` long.
#[derive(Debug, Clone)]
pub(crate) struct TensorEntry {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) format: TensorFormat,
    /// Index into the model's mapped files.
    pub(crate) file: usize,
    pub(crate) span: Range<usize>,
    pub(crate) row_order: RowOrder,
}

/// Puts the entries of one file in order of their bytes. Refuses bytes that two of them share.
pub(crate) fn sort_apart(path: &Path, entries: &mut [TensorEntry]) -> Result<()> {
    entries.sort_by_key(|entry| (entry.span.start, entry.span.end));
    for pair in entries.windows(2) {
        if pair[1].span.start < pair[0].span.end {
            let problem = format!("its bytes overlap those of `{}`", pair[0].name);
            return Err(ModelFileError::tensor(path, &pair[1].name, problem));
        }
    }
    Ok(())
}

/// One tensor of an open model. Its bytes are still on disk until they are asked for.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    entry: &'a TensorEntry,
    path: &'a Path,
    stored: &'a [u8],
}

impl<'a> TensorView<'a> {
    pub(crate) fn new(entry: &'a TensorEntry, file: &'a MappedFile) -> Self {
        Self { entry, path: file.path(), stored: &file.bytes()[entry.span.clone()] }
    }

    /// The Hugging Face name, for instance `model.layers.0.self_attn.q_proj.weight`.
    pub fn name(&self) -> &'a str {
        &self.entry.name
    }

    /// The file that holds it.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Dimensions, outermost first. Empty for a scalar.
    pub fn shape(&self) -> &'a [usize] {
        &self.entry.shape
    }

    /// How the elements are stored.
    pub fn format(&self) -> TensorFormat {
        self.entry.format
    }

    /// The product of the shape.
    pub fn num_elements(&self) -> usize {
        self.entry.shape.iter().product()
    }

    /// The last dimension; 1 for a scalar.
    pub fn num_columns(&self) -> usize {
        self.entry.shape.last().copied().unwrap_or(1)
    }

    /// Bytes in the file.
    pub fn num_bytes(&self) -> usize {
        self.stored.len()
    }

    /// The elements in Hugging Face row order, little-endian, row-major, with no promise about alignment. Borrows from
    /// the file where it can; a q or k projection of an interleaving GGUF file is gathered into a copy.
    pub fn bytes(&self) -> Cow<'a, [u8]> {
        match self.entry.row_order {
            RowOrder::AsStored => Cow::Borrowed(self.stored),
            RowOrder::Interleaved { .. } => Cow::Owned(self.runs().collect::<Vec<_>>().concat()),
        }
    }

    /// Byte runs that make up [`Self::bytes`] one after the other, without copying: whole rows, or all at once.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (order, stored, num_runs) = (self.entry.row_order, self.stored, self.num_runs());
        let run_bytes = stored.len() / num_runs;
        (0..num_runs).map(move |run| {
            let start = order.stored_row(run) * run_bytes;
            &stored[start..start + run_bytes]
        })
    }

    /// How many runs of equal length there are, at least one.
    pub(crate) fn num_runs(&self) -> usize {
        match self.entry.row_order {
            RowOrder::AsStored => 1,
            RowOrder::Interleaved { .. } => self.entry.shape.first().copied().unwrap_or(1).max(1),
        }
    }

    /// Pages of what is stored that tell two models of one shape apart: all of a small tensor, else the first page, the
    /// last and some between them at equal distances.
    pub(crate) fn samples(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        const PAGE: usize = 4096;
        const PAGES: usize = 18;
        let stored = self.stored;
        let (pages, length) = if stored.len() > PAGES * PAGE { (PAGES, PAGE) } else { (1, stored.len()) };
        let distance = (stored.len() - length) / (PAGES - 1);
        (0..pages).map(move |page| match page + 1 == PAGES {
            true => &stored[stored.len() - length..],
            false => &stored[page * distance..][..length],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::RowOrder;

    /// The converter's permutation, written as it is there: reshape to (heads, 2, half), swap the last two axes.
    fn converted_rows(heads: usize, head_rows: usize) -> Vec<usize> {
        let half = head_rows / 2;
        let mut stored = Vec::new();
        for head in 0..heads {
            for j in 0..half {
                for part in 0..2 {
                    stored.push(head * head_rows + part * half + j);
                }
            }
        }
        stored
    }

    #[test]
    fn the_gather_undoes_the_converters_interleaving() {
        for (heads, head_rows) in [(1, 2), (3, 4), (9, 64), (2, 6)] {
            let stored = converted_rows(heads, head_rows);
            let order = RowOrder::Interleaved { head_rows };
            let restored: Vec<usize> =
                (0..heads * head_rows).map(|row| stored[order.stored_row(row)]).collect();
            assert_eq!(restored, (0..heads * head_rows).collect::<Vec<_>>(), "{heads} heads of {head_rows}");
        }
    }
}
