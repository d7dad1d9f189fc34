use aho_corasick::AhoCorasick;
use tokenizers::{AddedVocabulary, PreTokenizerWrapper, Tokenizer as Library};
use troupe_model_files::SpecialTokens;

use super::alphabet::{Alphabet, TokenBytes};
use super::encode;
use crate::template::TemplateTokens;

/// Whether the ids that the model's configuration puts around a text (BOS, EOS) are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddSpecial {
    /// The text alone: a rendered template spells its own.
    Never,
    /// As the model's configuration says: a raw completion.
    AsConfigured,
}

/// What a spelling of a control token in a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseSpecial {
    /// That token.
    AsTokens,
    /// Text like any other.
    AsText,
}

/// Whether special tokens show in decoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialText {
    /// They are left out.
    Skip,
    /// They show as they are spelled.
    Show,
}

/// The ids around a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) prefix: Vec<u32>,
    pub(super) suffix: Vec<u32>,
}

/// A tokenizer. Immutable; share it in an `Arc`.
pub struct Tokenizer {
    pub(super) library: Library,
    pub(super) frame: Frame,
    /// The library's added tokens, set to pass over special ones.
    pub(super) added_as_text: AddedVocabulary,
    /// The pre-tokenizer for text that does not start a sequence.
    pub(super) inner_pre_tokenizer: Option<PreTokenizerWrapper>,
    /// Finds spellings of special tokens; `None` if there are none.
    pub(super) special_matcher: Option<AhoCorasick>,
    bytes: TokenBytes,
    special: Vec<bool>,
    alphabet: Alphabet,
    /// Whether decoding a whole text drops the one space that encoding put before it.
    drops_first_space: bool,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("vocab_size", &self.vocab_size()).finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// `names` are the texts by id where the source lists them; otherwise the library's are asked for.
    pub(super) fn from_parts(library: Library, frame: Frame, names: Option<&[String]>) -> Self {
        let alphabet = Alphabet::of(&library);
        let added = library.get_added_vocabulary();
        let decoder = added.get_added_tokens_decoder();
        let size = names.map_or_else(|| vocabulary_size(&library), <[String]>::len);
        let ids = 0..u32::try_from(size).unwrap_or(u32::MAX);
        let text_of = |id: u32| match names {
            Some(names) => names.get(id as usize).cloned(),
            None => library.id_to_token(id),
        };
        let bytes = TokenBytes::new(ids.clone().map(|id| match decoder.get(&id) {
            Some(token) => token.content.clone().into_bytes(),
            None => text_of(id).map(|text| alphabet.bytes(&text)).unwrap_or_default(),
        }));
        let special = ids.map(|id| decoder.get(&id).is_some_and(|token| token.special)).collect();
        let spellings: Vec<&str> =
            decoder.values().filter(|token| token.special).map(|token| token.content.as_str()).collect();
        let special_matcher = AhoCorasick::new(spellings).ok();
        let mut added_as_text = added.clone();
        added_as_text.set_encode_special_tokens(true);
        let inner_pre_tokenizer = library.get_pre_tokenizer().cloned().map(encode::without_first_prefix);
        let drops_first_space = alphabet == Alphabet::SentencePiece && encode::adds_first_space(&library);
        Self {
            frame,
            added_as_text,
            inner_pre_tokenizer,
            special_matcher,
            bytes,
            special,
            alphabet,
            drops_first_space,
            library,
        }
    }

    /// The number of ids, from 0; ids without a token (padding of the vocabulary) count.
    pub fn vocab_size(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a text is the bytes of its tokens, one after another.
    pub fn has_exact_bytes(&self) -> bool {
        self.alphabet != Alphabet::Words
    }

    /// The exact bytes that a token stands for; `None` if `id` is outside the vocabulary. A special token stands for
    /// its spelling.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.bytes.get(id)
    }

    /// The bytes of a token as text, what is not UTF-8 replaced.
    pub fn token_text(&self, id: u32) -> Option<String> {
        self.bytes.get(id).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// The id of the token that the vocabulary spells so (in the vocabulary's own alphabet).
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.library.token_to_id(token)
    }

    /// Whether a token is special: a control token, which is not text.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    /// The text of a whole sequence. What is not UTF-8 is replaced; ids outside the vocabulary are left out.
    pub fn decode(&self, ids: &[u32], special: SpecialText) -> String {
        if self.alphabet == Alphabet::Words {
            return self.library.decode(ids, special == SpecialText::Skip).unwrap_or_default();
        }
        let shown = ids.iter().filter(|id| special == SpecialText::Show || !self.is_special(**id));
        let bytes: Vec<u8> = shown.filter_map(|id| self.bytes.get(*id)).flatten().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        match text.strip_prefix(' ').filter(|_| self.drops_first_space) {
            Some(rest) => rest.to_owned(),
            None => text.into_owned(),
        }
    }

    /// What a chat template needs: the special tokens' names, and all spellings that a client may not forge.
    pub fn template_tokens(&self, special: &SpecialTokens) -> TemplateTokens {
        let named = [
            ("bos_token", &special.bos),
            ("eos_token", &special.eos),
            ("unk_token", &special.unk),
            ("pad_token", &special.pad),
            ("sep_token", &special.sep),
            ("cls_token", &special.cls),
            ("mask_token", &special.mask),
        ];
        let named =
            named.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text.clone()?))).collect();
        let added = self.library.get_added_vocabulary().get_added_tokens_decoder();
        let mut control: Vec<String> =
            added.values().filter(|token| token.special).map(|token| token.content.clone()).collect();
        control.sort();
        TemplateTokens { named, control }
    }
}

/// One more than the highest id.
fn vocabulary_size(library: &Library) -> usize {
    library.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1)
}
