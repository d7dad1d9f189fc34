//! Text to ids.
//!
//! A text in which every spelling of a control token is one goes to the library whole, so that its ids are the
//! reference's. Otherwise the text is cut at the control tokens that count, and what lies between is encoded with the
//! special tokens left out of the added ones: the library itself treats the text between two added tokens as parts of
//! their own, so the cuts change nothing else.

use std::ops::Range;

use tokenizers::pre_tokenizers::metaspace::PrependScheme;
use tokenizers::{
    Model, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    PreTokenizerWrapper, Tokenizer as Library,
};

use super::TokenizerError;
use super::core::{AddSpecial, ParseSpecial, Tokenizer};
use crate::template::Rendered;

impl Tokenizer {
    /// The ids of a text. Where the text starts with a BOS token of its own, none is added to it.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`] if the library fails, such as for a text that a vocabulary without an unknown token
    /// cannot spell.
    pub fn encode(
        &self,
        text: &str,
        add: AddSpecial,
        parse: ParseSpecial,
    ) -> Result<Vec<u32>, TokenizerError> {
        let ids = match parse {
            ParseSpecial::AsTokens => self.encode_whole(text)?,
            ParseSpecial::AsText => self.encode_literal(text, std::slice::from_ref(&(0..text.len())))?,
        };
        Ok(match add {
            AddSpecial::Never => ids,
            AddSpecial::AsConfigured => self.framed(ids),
        })
    }

    /// The ids of a rendered template: its control tokens count, those that a client wrote are text. Nothing is added.
    ///
    /// # Errors
    /// As for [`Tokenizer::encode`].
    pub fn encode_rendered(&self, rendered: &Rendered) -> Result<Vec<u32>, TokenizerError> {
        self.encode_literal(&rendered.text, &rendered.literal)
    }

    fn encode_whole(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        Ok(self.library.encode_fast(text, false).map_err(failed)?.get_ids().to_vec())
    }

    /// Encodes `text` with no special token overlapping `literal` (ordered ranges at character borders).
    fn encode_literal(&self, text: &str, literal: &[Range<usize>]) -> Result<Vec<u32>, TokenizerError> {
        let is_harmless = self.special_matcher.as_ref().is_none_or(|matcher| {
            matcher
                .find_overlapping_iter(text)
                .all(|found| !literal.iter().any(|span| overlaps(span, &found.range())))
        });
        if is_harmless {
            return self.encode_whole(text);
        }
        let mut ids = Vec::new();
        let mut done = 0;
        for (special, span) in self.special_tokens_outside(text, literal) {
            self.encode_plain(text, done..span.start, &mut ids)?;
            ids.push(special);
            done = span.end;
        }
        self.encode_plain(text, done..text.len(), &mut ids)?;
        Ok(ids)
    }

    /// The special tokens that lie wholly between the literal spans, in order, with the bytes that each takes.
    fn special_tokens_outside(&self, text: &str, literal: &[Range<usize>]) -> Vec<(u32, Range<usize>)> {
        let mut found = Vec::new();
        let mut start = 0;
        let ends = literal.iter().map(|span| (span.start, span.end)).chain([(text.len(), text.len())]);
        for (end, next) in ends {
            let added = self.library.get_added_vocabulary();
            let parts = added.extract_and_normalize::<NormalizerWrapper>(None, &text[start..end]);
            for (_, (from, to), tokens) in parts.get_splits(OffsetReferential::Original, OffsetType::Byte) {
                let ids = tokens.iter().flatten().map(|token| token.id);
                found.extend(ids.filter(|id| self.is_special(*id)).map(|id| (id, start + from..start + to)));
            }
            start = next;
        }
        found
    }

    /// Encodes one part of a text in which no special token counts.
    fn encode_plain(&self, text: &str, part: Range<usize>, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        if part.is_empty() {
            return Ok(());
        }
        let pre_tokenizer = match part.start {
            0 => self.library.get_pre_tokenizer(),
            _ => self.inner_pre_tokenizer.as_ref(),
        };
        let mut parts: PreTokenizedString =
            self.added_as_text.extract_and_normalize(self.library.get_normalizer(), &text[part]);
        if let Some(pre_tokenizer) = pre_tokenizer {
            pre_tokenizer.pre_tokenize(&mut parts).map_err(failed)?;
        }
        parts.tokenize(|part| self.library.get_model().tokenize(part.get())).map_err(failed)?;
        let splits = parts.get_splits(OffsetReferential::Original, OffsetType::None);
        ids.extend(splits.iter().flat_map(|(_, _, tokens)| tokens.iter().flatten()).map(|token| token.id));
        Ok(())
    }

    fn framed(&self, mut ids: Vec<u32>) -> Vec<u32> {
        let mut out = self.frame.prefix.clone();
        if !out.is_empty() && ids.starts_with(&out) {
            ids.drain(..out.len());
        }
        out.append(&mut ids);
        out.extend_from_slice(&self.frame.suffix);
        out
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the library's errors are boxed")]
fn failed(error: tokenizers::Error) -> TokenizerError {
    TokenizerError::Encode { message: error.to_string() }
}

fn overlaps(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// A pre-tokenizer for text inside a sequence: one that marks a sequence's first word only does not mark this text.
pub(super) fn without_first_prefix(pre_tokenizer: PreTokenizerWrapper) -> PreTokenizerWrapper {
    match pre_tokenizer {
        PreTokenizerWrapper::Metaspace(mut metaspace) if metaspace.prepend_scheme == PrependScheme::First => {
            metaspace.set_prepend_scheme(PrependScheme::Never);
            PreTokenizerWrapper::Metaspace(metaspace)
        }
        PreTokenizerWrapper::Sequence(sequence) => {
            let steps = sequence.into_iter().map(without_first_prefix).collect();
            PreTokenizerWrapper::Sequence(tokenizers::pre_tokenizers::sequence::Sequence::new(steps))
        }
        other => other,
    }
}

/// Whether encoding puts a space before a text: `a` is then spelled as ` a` is.
pub(super) fn adds_first_space(library: &Library) -> bool {
    // The quick way of encoding leaves the tokens' texts out.
    let first = library.encode("a", false).ok().and_then(|encoding| encoding.get_tokens().first().cloned());
    first.is_some_and(|token| token.starts_with('▁'))
}
