//! A grammar is refused, or a text can be said by it: there is always a token that may come next, and what is complete
//! is what was asked for. Only too much work ends a text before that.

use std::sync::LazyLock;

use serde::de::IgnoredAny;
use troupe_actors::guide::{Grammar, Guide, Progress};
use troupe_actors::model_card::ModelCard;
use troupe_actors::testing::{END, VOCAB_SIZE};

static CARD: LazyLock<ModelCard> =
    LazyLock::new(|| troupe_actors::testing::model_card(2048).expect("the tests' own tokenizer is sound"));

/// Tokens of a text, at most.
const MAX_TOKENS: usize = 48;

const KINDS: [&str; 4] = ["json", "regex", "lark", "choice"];

/// Reads the bytes as a grammar. Their first line says of what kind; one that says none is a kind by its first byte.
pub fn grammars(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (head, source) = text.split_once('\n').unwrap_or(("", &text));
    let kind = KINDS.into_iter().find(|kind| *kind == head);
    let kind = kind.unwrap_or(KINDS[usize::from(head.bytes().next().unwrap_or_default()) % KINDS.len()]);
    let choices: Vec<String> = source.lines().map(str::to_owned).collect();
    let grammar = match kind {
        "json" => serde_json::from_str(source).ok().map(Grammar::json_schema),
        "regex" => Some(Grammar::regex(source)),
        "lark" => Some(Grammar::lark(source)),
        _ => Some(Grammar::choice(&choices)),
    };
    let Some(Ok(grammar)) = grammar else { return };
    let Ok(guide) = Guide::new(&CARD.vocabulary, &grammar, &[END]) else { return };
    let Some(said) = say(guide, bytes.len()) else { return };
    match kind {
        "json" => {
            let json: Result<IgnoredAny, _> = serde_json::from_slice(&said);
            assert!(json.is_ok(), "{} for {source}", String::from_utf8_lossy(&said));
        }
        "choice" => {
            assert!(choices.iter().any(|choice| choice.as_bytes() == said), "{said:?} of {choices:?}")
        }
        _ => {}
    }
}

/// A text that is complete within the limit; the allowed tokens take turns, and an end is taken every other time.
fn say(mut guide: Guide, seed: usize) -> Option<Vec<u8>> {
    let mut said = Vec::new();
    for step in 0..MAX_TOKENS {
        let mask = guide.mask().ok()?;
        let allowed: Vec<u32> = (0..VOCAB_SIZE).filter(|&token| mask.allows(token)).collect();
        assert!(!allowed.is_empty(), "nothing may follow {said:?}");
        let may_end = mask.allows(END) && step % 2 == 1;
        let token = if may_end { END } else { allowed[(seed + step * 31) % allowed.len()] };
        let progress = guide.advance(token).ok()?;
        if progress == Progress::Ended {
            return Some(said);
        }
        said.push(u8::try_from(token).expect("a token is a byte, or the end"));
        if progress == Progress::Complete {
            return Some(said);
        }
    }
    None
}
