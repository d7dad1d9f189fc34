//! A tokenizer out of the lists of a GGUF file.

use std::collections::HashSet;

use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::models::bpe::{BPE, BpeBuilder, Merges, Vocab};
use tokenizers::normalizers::{Prepend, Replace, Sequence};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, NormalizerWrapper, Tokenizer as Library};
use troupe_model_files::GgufTokenizer;

use super::core::Frame;
use super::{TokenizerError, pre_tokenizer, sentencepiece};

const KNOWN_MODELS: &str = "gpt2, llama";

// Token types, as the format numbers them.
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// The library's tokenizer, and the ids that it puts around a text.
pub(super) fn build(source: &GgufTokenizer) -> Result<(Library, Frame), TokenizerError> {
    let (mut library, adds_bos) = match source.model.as_str() {
        "gpt2" => byte_level(source)?,
        "llama" => (sentence_piece(source)?, true),
        name => return Err(TokenizerError::UnknownModel { name: name.to_owned(), known: KNOWN_MODELS }),
    };
    add_tokens(&mut library, source)?;
    let bos = source.bos_token_id.filter(|_| source.add_bos.unwrap_or(adds_bos));
    let eos = source.eos_token_id.filter(|_| source.add_eos.unwrap_or(false));
    Ok((library, Frame { prefix: bos.into_iter().collect(), suffix: eos.into_iter().collect() }))
}

fn byte_level(source: &GgufTokenizer) -> Result<(Library, bool), TokenizerError> {
    let pre_tokenizer = pre_tokenizer::find(source.pre.as_deref())?;
    let vocab = vocabulary(&source.tokens)?;
    let merges = given_merges(&source.merges, &vocab)?;
    let model =
        finish(BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(pre_tokenizer.ignores_merges))?;
    let mut library = Library::new(model);
    library.with_pre_tokenizer(Some(pre_tokenizer.build()?));
    library.with_normalizer(pre_tokenizer.normalizer()).map_err(invalid)?;
    library.with_decoder(Some(ByteLevel::default()));
    Ok((library, pre_tokenizer.adds_bos))
}

fn sentence_piece(source: &GgufTokenizer) -> Result<Library, TokenizerError> {
    let vocab = vocabulary(&source.tokens)?;
    let scores = source.scores.as_deref().ok_or_else(|| invalid("a model of kind llama has no scores"))?;
    let merges = sentencepiece::merges(&source.tokens, scores, &vocab);
    let unknown = source.unk_token_id.and_then(|id| source.tokens.get(id as usize));
    let mut builder = BPE::builder().vocab_and_merges(vocab, merges).byte_fallback(true).fuse_unk(true);
    if let Some(unknown) = unknown {
        builder = builder.unk_token(unknown.clone());
    }
    let mut library = Library::new(finish(builder)?);
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    if source.add_space_prefix.unwrap_or(true) {
        steps.push(Prepend::new("▁".to_owned()).into());
    }
    steps.push(Replace::new(" ", "▁").map_err(invalid)?.into());
    library.with_normalizer(Some(Sequence::new(steps))).map_err(invalid)?;
    library.with_decoder(Some(ByteFallback::new()));
    Ok(library)
}

fn invalid(reason: impl ToString) -> TokenizerError {
    TokenizerError::Vocabulary { reason: reason.to_string() }
}

fn finish(builder: BpeBuilder) -> Result<BPE, TokenizerError> {
    builder.build().map_err(invalid)
}

fn vocabulary(tokens: &[String]) -> Result<Vocab, TokenizerError> {
    let mut vocab = Vocab::with_capacity(tokens.len());
    for (index, token) in tokens.iter().enumerate() {
        let id = u32::try_from(index).map_err(invalid)?;
        // Of tokens with the same text the first is the one that encoding gives.
        vocab.entry(token.clone()).or_insert(id);
    }
    Ok(vocab)
}

/// The merges of the file. Each half and the whole must be tokens: the library indexes by them unchecked.
fn given_merges(lines: &[String], vocab: &Vocab) -> Result<Merges, TokenizerError> {
    let mut joined = String::new();
    lines
        .iter()
        .map(|line| {
            let (left, right) =
                line.split_once(' ').ok_or_else(|| invalid(format!("merge {line:?} is not a pair")))?;
            joined.clear();
            joined.extend([left, right]);
            match [left, right, &joined].into_iter().find(|token| !vocab.contains_key(*token)) {
                Some(missing) => {
                    Err(invalid(format!("merge {line:?} needs token {missing:?}, which is missing")))
                }
                None => Ok((left.to_owned(), right.to_owned())),
            }
        })
        .collect()
}

/// Control and unknown tokens become special; user-defined ones are matched whole in every text.
fn add_tokens(library: &mut Library, source: &GgufTokenizer) -> Result<(), TokenizerError> {
    let mut seen = HashSet::new();
    let mut added = Vec::new();
    for (token, kind) in source.tokens.iter().zip(source.token_types.iter().flatten()) {
        let is_special = match *kind {
            UNKNOWN | CONTROL => true,
            USER_DEFINED => false,
            _ => continue,
        };
        if !token.is_empty() && seen.insert(token.as_str()) {
            added.push(AddedToken::from(token.clone(), is_special).normalized(false));
        }
    }
    library.add_tokens(added).map_err(invalid)?;
    Ok(())
}
