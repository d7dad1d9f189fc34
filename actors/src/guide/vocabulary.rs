use std::fmt;
use std::sync::{Arc, OnceLock};

use llguidance::ParserFactory;
use llguidance::api::ParserLimits;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};

use super::error::{GrammarError, words};
use crate::tokenizer::Tokenizer;

/// Begins the spelling of a special token, so that no text is it.
const SPECIAL: u8 = TokTrie::SPECIAL_TOKEN_MARKER;

/// Bounds of the work on one grammar: a grammar compiles within a few tens of milliseconds, and a mask takes a few at most,
/// or the one who asked for it is told so.
fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2_000,
        initial_lexer_fuel: 1_000_000,
        step_lexer_fuel: 100_000,
        step_max_items: 50_000,
        // Of one to two kilobytes each.
        max_lexer_states: 50_000,
        max_grammar_size: 200_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}

/// The tokens of a model as grammars see them: the bytes of each, in a tree. Built at the first use, once.
///
/// One token is added at the end that no model has: it stands for the end of the text, whatever a sequence ends with.
pub struct Vocabulary {
    tokenizer: Arc<Tokenizer>,
    size: u32,
    factory: OnceLock<Result<ParserFactory, GrammarError>>,
}

impl Vocabulary {
    /// Over the tokens of `tokenizer`, for logits of `size` tokens.
    pub fn new(tokenizer: Arc<Tokenizer>, size: u32) -> Self {
        Self { tokenizer, size, factory: OnceLock::new() }
    }

    /// Tokens of the model.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The token that stands for the end of the text.
    pub(super) fn end(&self) -> u32 {
        self.size
    }

    pub(super) fn factory(&self) -> Result<&ParserFactory, GrammarError> {
        self.factory.get_or_init(|| self.build()).as_ref().map_err(Clone::clone)
    }

    fn build(&self) -> Result<ParserFactory, GrammarError> {
        if !self.tokenizer.has_exact_bytes() {
            return Err(GrammarError::Tokenizer);
        }
        let mut spellings: Vec<Vec<u8>> = (0..self.size).map(|id| self.spelling(id)).collect();
        spellings.push([&[SPECIAL], &b"<|end of the text|>"[..]].concat());
        let info = TokRxInfo::new(self.size + 1, self.end());
        let tokens: TokEnv = Arc::new(ApproximateTokEnv::new(TokTrie::from(&info, &spellings)));
        let factory = ParserFactory::new_simple(&tokens);
        let mut factory = factory.map_err(|error| GrammarError::Broken { message: words(&error) })?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(factory)
    }

    /// The bytes of a token; none if it is not to be said.
    fn spelling(&self, id: u32) -> Vec<u8> {
        let bytes = self.tokenizer.token_bytes(id).unwrap_or_default();
        if self.tokenizer.is_special(id) && !bytes.is_empty() {
            return [&[SPECIAL], bytes].concat();
        }
        bytes.to_vec()
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary").field("size", &self.size).finish_non_exhaustive()
    }
}
