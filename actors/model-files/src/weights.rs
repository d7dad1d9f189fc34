//! The tensors of a model, from however many files, under one set of names.

use std::collections::HashMap;

use crate::error::{ModelFileError, Result};
use crate::mapped::MappedFile;
use crate::tensor::{TensorEntry, TensorView};

/// Every tensor of a model. Entries keep the order of the files and of the bytes in them, so that a loader that walks
/// them reads the disk forwards.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    files: Vec<MappedFile>,
    entries: Vec<TensorEntry>,
    index: HashMap<String, usize>,
}

impl Weights {
    /// Adds a file with the entries of its directory, in order of their bytes. Their `file` field is set here. Refuses a
    /// name that is there already.
    pub(crate) fn add(&mut self, file: MappedFile, entries: Vec<TensorEntry>) -> Result<()> {
        for mut entry in entries {
            if let Some(&earlier) = self.index.get(&entry.name) {
                let problem = match self.files.get(self.entries[earlier].file) {
                    Some(other) => format!("also in {}", other.path().display()),
                    None => "named twice".into(),
                };
                return Err(ModelFileError::tensor(file.path(), entry.name, problem));
            }
            entry.file = self.files.len();
            self.index.insert(entry.name.clone(), self.entries.len());
            self.entries.push(entry);
        }
        self.files.push(file);
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<TensorView<'_>> {
        self.index.get(name).map(|&at| self.view(&self.entries[at]))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = TensorView<'_>> {
        self.entries.iter().map(|entry| self.view(entry))
    }

    pub(crate) fn files(&self) -> &[MappedFile] {
        &self.files
    }

    /// Each file with what stands before its first tensor: its header.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&MappedFile, &[u8])> {
        self.files.iter().enumerate().map(|(number, file)| {
            let first = self.entries.iter().find(|entry| entry.file == number);
            (file, &file.bytes()[..first.map_or(file.bytes().len(), |entry| entry.span.start)])
        })
    }

    fn view<'a>(&'a self, entry: &'a TensorEntry) -> TensorView<'a> {
        TensorView::new(entry, &self.files[entry.file])
    }
}
