//! Compiling on the tokenizer's threads: it is bounded, but not short.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actix::prelude::*;
use troupe_protocol::TokenId;

use super::error::GrammarError;
use super::grammar::Grammar;
use super::sequence::Guide;
use super::vocabulary::Vocabulary;
use crate::tokenizer_pool::TokenizerPool;

/// Makes a guide of a grammar.
#[derive(Message)]
#[rtype(result = "Result<Guide, GrammarError>")]
pub struct CompileGrammar {
    /// The tokens of the model.
    pub vocabulary: Arc<Vocabulary>,
    /// What the text has to be.
    pub grammar: Grammar,
    /// Tokens that end the text.
    pub ends: Vec<TokenId>,
}

impl Handler<CompileGrammar> for TokenizerPool {
    type Result = Result<Guide, GrammarError>;

    fn handle(&mut self, asked: CompileGrammar, _: &mut Self::Context) -> Self::Result {
        let CompileGrammar { vocabulary, grammar, ends } = asked;
        // A panic costs one request, and not a thread of the pool.
        catch_unwind(AssertUnwindSafe(|| Guide::new(&vocabulary, &grammar, &ends)))
            .unwrap_or_else(|_| Err(GrammarError::Broken { message: "it panicked".to_owned() }))
    }
}
