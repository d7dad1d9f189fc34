//! SentencePiece BPE (`tokenizer.ggml.model = llama`): merges out of scores.

use std::cmp::Ordering;

use tokenizers::models::bpe::{Merges, Vocab};

/// The longest token text whose splits are tried, in bytes.
const MAX_TOKEN_BYTES: usize = 256;

/// The merges that SentencePiece performs: every pair of tokens whose joined text is a token, best score first, as
/// `transformers` derives them when it converts such a model.
pub(super) fn merges(tokens: &[String], scores: &[f32], vocab: &Vocab) -> Merges {
    struct Candidate<'a> {
        left: &'a str,
        right: &'a str,
        score: f32,
    }
    let mut found: Vec<Candidate> = Vec::new();
    for (token, score) in tokens.iter().zip(scores) {
        if token.len() > MAX_TOKEN_BYTES {
            continue;
        }
        let from = found.len();
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if vocab.contains_key(left) && vocab.contains_key(right) {
                found.push(Candidate { left, right, score: *score });
            }
        }
        found[from..].sort_by_key(|candidate| (vocab[candidate.left], vocab[candidate.right]));
    }
    // The sort is stable: equal candidates stay in the order of the vocabulary.
    found.sort_by(|a, b| {
        let by_score = b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal);
        let lengths =
            |candidate: &Candidate| (candidate.left.chars().count(), candidate.right.chars().count());
        by_score.then_with(|| lengths(b).cmp(&lengths(a)))
    });
    found.into_iter().map(|candidate| (candidate.left.to_owned(), candidate.right.to_owned())).collect()
}
