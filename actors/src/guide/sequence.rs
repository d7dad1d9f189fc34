use std::fmt;
use std::sync::Arc;

use llguidance::Matcher;
use troupe_protocol::{FinishReason, TokenId, TokenMask};

use super::error::{GrammarError, GuideError, words, words_of_compiler};
use super::grammar::Grammar;
use super::vocabulary::Vocabulary;

/// Tokens that a guide says by way of trial. Each takes a few milliseconds at most.
const REHEARSED_TOKENS: usize = 3;
/// The same of a grammar with counts within counts, each of which may be anywhere when a token comes: what that takes adds
/// up over the text.
const REHEARSED_TOKENS_OF_NESTED_COUNTS: usize = 512;

/// What the tokens of one sequence may be.
///
/// Tokens that end a text may come where the text is complete, and nowhere else, so that a text which ended by itself
/// always is what was asked for. A clone goes its own way from where it was cloned.
#[derive(Clone)]
pub struct Guide {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
    /// Tokens that end the text.
    ends: Arc<[TokenId]>,
    phase: Phase,
    is_whole_or_nothing: bool,
    /// What the next token may be, if it was worked out already.
    next: Option<TokenMask>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Anything may come but an end.
    Waiting,
    /// Text of the grammar comes.
    Guiding,
    /// Nothing may come any more.
    Over,
}

/// Which of the tokens that may come does. The first is often a quotation mark, with which a string ends; the last is none.
#[derive(Clone, Copy, Debug)]
enum Taken {
    First,
    Last,
}

/// Where a text stands after a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More has to come, or may.
    Open,
    /// Nothing more can come: the text is complete.
    Complete,
    /// The token was one of those that end the text, where it may end.
    Ended,
}

impl Guide {
    /// A guide from the first token on; `ends` are the tokens that end the text. Works out what the first may be.
    ///
    /// # Errors
    /// A grammar that cannot be compiled, or that no text satisfies.
    pub fn new(
        vocabulary: &Arc<Vocabulary>,
        grammar: &Grammar,
        ends: &[TokenId],
    ) -> Result<Self, GrammarError> {
        let mut guide = Self::compile(vocabulary, grammar, ends)?;
        let refused = |GuideError { message }| GrammarError::Compile { message };
        let first = guide.work_out().map_err(refused)?;
        guide.next = Some(first);
        if grammar.nests_counts() {
            for taken in [Taken::First, Taken::Last] {
                // Clones share what was worked out, up to its bound, and the text is another one.
                let trial = Self::compile(vocabulary, grammar, ends)?;
                trial.rehearse(REHEARSED_TOKENS_OF_NESTED_COUNTS, taken).map_err(refused)?;
            }
        } else {
            guide.clone().rehearse(REHEARSED_TOKENS, Taken::First).map_err(refused)?;
        }
        Ok(guide)
    }

    fn compile(
        vocabulary: &Arc<Vocabulary>,
        grammar: &Grammar,
        ends: &[TokenId],
    ) -> Result<Self, GrammarError> {
        let compiled = vocabulary.factory()?.create_parser(grammar.to_library());
        let parser = compiled
            .map_err(|error| GrammarError::Compile { message: words_of_compiler(&error, grammar) })?;
        Ok(Self {
            vocabulary: Arc::clone(vocabulary),
            matcher: Matcher::new(Ok(parser)),
            ends: ends.into(),
            phase: Phase::Guiding,
            is_whole_or_nothing: grammar.is_whole_or_nothing(),
            next: None,
        })
    }

    /// Says the first tokens of a text: where a grammar takes too much work, it mostly does so there, and its client is
    /// told before anything is generated.
    fn rehearse(mut self, tokens: usize, taken: Taken) -> Result<(), GuideError> {
        for _ in 0..tokens {
            let mask = self.mask()?;
            let mut allowed = (0..self.vocabulary.size()).filter(|&token| mask.allows(token));
            let goes_on = |token: &TokenId| !self.ends.contains(token);
            let token = match taken {
                Taken::First => allowed.find(goes_on),
                Taken::Last => allowed.rfind(goes_on),
            };
            let Some(token) = token else { break };
            if self.advance(token)? != Progress::Open {
                break;
            }
        }
        Ok(())
    }

    /// The same, but any text may come before that of the grammar, until [`Self::begin`]. It is for models that think before
    /// they answer.
    #[must_use]
    pub fn waiting(mut self) -> Self {
        self.phase = Phase::Waiting;
        self
    }

    /// Text of the grammar comes from the next token on.
    pub fn begin(&mut self) {
        if self.phase == Phase::Waiting {
            self.phase = Phase::Guiding;
        }
    }

    /// What the next token may be. Asked for once before each.
    ///
    /// # Errors
    /// If that takes more work than it may.
    pub fn mask(&mut self) -> Result<TokenMask, GuideError> {
        match self.phase {
            Phase::Waiting => {
                let mut mask = TokenMask::all(self.vocabulary.size());
                self.ends.iter().for_each(|&end| mask.forbid(end));
                Ok(mask)
            }
            Phase::Guiding => self.next.take().map_or_else(|| self.work_out(), Ok),
            Phase::Over => Err(GuideError { message: "nothing follows a complete text".to_owned() }),
        }
    }

    /// Takes the next token, which the mask allowed.
    ///
    /// # Errors
    /// One that it did not, or too much work.
    pub fn advance(&mut self, token: TokenId) -> Result<Progress, GuideError> {
        if self.phase != Phase::Guiding {
            return Ok(Progress::Open);
        }
        if self.ends.contains(&token) {
            self.phase = Phase::Over;
            return Ok(Progress::Ended);
        }
        self.next = None;
        self.matcher.consume_token(token).map_err(|error| GuideError { message: words(&error) })?;
        if self.matcher.is_stopped() {
            self.phase = Phase::Over;
            return Ok(Progress::Complete);
        }
        Ok(Progress::Open)
    }

    /// Whether the text is complete and nothing can follow.
    pub fn is_complete(&self) -> bool {
        self.phase == Phase::Over
    }

    /// What is said of a text that a client's stop string cuts. A part of a JSON document is none, so it is told as cut; of
    /// other text the client wanted no more.
    pub fn reason_of_cut(&self) -> FinishReason {
        if self.is_whole_or_nothing { FinishReason::Length } else { FinishReason::Stop }
    }

    fn work_out(&mut self) -> Result<TokenMask, GuideError> {
        let set = self.matcher.compute_mask().map_err(|error| GuideError { message: words(&error) })?;
        let (size, end) = (self.vocabulary.size(), self.vocabulary.end());
        let may_end = set.is_allowed(end);
        let mut mask = TokenMask::new(set.as_slice()[..TokenMask::num_words(size)].to_vec());
        mask.forbid(end);
        for &token in self.ends.iter() {
            if may_end { mask.allow(token) } else { mask.forbid(token) }
        }
        if mask.is_empty() {
            return Err(GuideError { message: "no token of this model can come next".to_owned() });
        }
        Ok(mask)
    }
}

impl fmt::Debug for Guide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guide").field("phase", &self.phase).field("ends", &self.ends).finish_non_exhaustive()
    }
}
