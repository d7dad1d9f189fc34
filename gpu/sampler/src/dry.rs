//! DRY: "don't repeat yourself" (Weidmann 2024; the rules are llama.cpp's).

use std::collections::BTreeMap;

use troupe_protocol::TokenId;
use troupe_protocol::sampling::Dry;

/// No logit is lowered further: it is as good as gone, and still a number.
const MOST: f64 = 1e30;

/// Lowers the logits of tokens that would go on with a repetition: where the end of `tokens` was met before, the token that
/// followed there, by `multiplier * base^(length of what was met - allowed_length)`.
pub(crate) fn penalise(logits: &mut [f32], how: &Dry, tokens: &[TokenId]) {
    for (token, length) in continuations(how, tokens) {
        let exponent = f64::from(length - how.allowed_length);
        let penalty = (f64::from(how.multiplier) * f64::from(how.base).powf(exponent)).min(MOST);
        if let Some(logit) = logits.get_mut(token as usize) {
            *logit -= penalty as f32;
        }
    }
}

/// Tokens that followed earlier occurrences of the end of `tokens`, each with the length of the longest one, where that is
/// at least `allowed_length`. Linear in the number of tokens.
fn continuations(how: &Dry, tokens: &[TokenId]) -> BTreeMap<TokenId, u32> {
    let window = how.last_n.map_or(tokens.len(), |last| (last as usize).min(tokens.len()));
    let tokens = &tokens[tokens.len() - window..];
    let breaks = |token: &TokenId| how.breakers.binary_search(token).is_ok();
    let most = tokens.iter().rev().take_while(|token| !breaks(token)).count();
    let mut found = BTreeMap::new();
    if most < how.allowed_length as usize {
        return found;
    }
    let backwards: Vec<TokenId> = tokens.iter().rev().copied().collect();
    for (at, length) in common_prefixes(&backwards).into_iter().enumerate().skip(1) {
        let (length, next) = (length.min(most) as u32, backwards[at - 1]);
        if length >= how.allowed_length && !breaks(&next) {
            let longest = found.entry(next).or_insert(length);
            *longest = length.max(*longest);
        }
    }
    found
}

/// For each place, the length of what `items` from there on has in common with its beginning: the Z-function.
fn common_prefixes(items: &[TokenId]) -> Vec<usize> {
    let mut lengths = vec![0; items.len()];
    // The part from `start` to `end` is the one that reaches furthest among those equal to a beginning.
    let (mut start, mut end) = (0, 0);
    for at in 1..items.len() {
        let mut length = if at < end { lengths[at - start].min(end - at) } else { 0 };
        while at + length < items.len() && items[length] == items[at + length] {
            length += 1;
        }
        if at + length > end {
            (start, end) = (at, at + length);
        }
        lengths[at] = length;
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(how: &Dry, tokens: &[TokenId]) -> Vec<(TokenId, u32)> {
        continuations(how, tokens).into_iter().collect()
    }

    #[test]
    fn what_would_go_on_with_a_repetition_is_found() {
        let plain = Dry { multiplier: 1.0, ..Dry::DEFAULT };
        let strict = Dry { allowed_length: 1, ..plain.clone() };
        for (how, tokens, wanted) in [
            (&plain, &[][..], &[][..]),
            (&plain, &[1, 2, 3, 4], &[]),
            // One token in common is allowed, two are not.
            (&plain, &[1, 2, 3, 2], &[]),
            (&plain, &[1, 2, 3, 1, 2], &[(3, 2)]),
            (&strict, &[1, 2, 3, 2], &[(3, 1)]),
            // The longest occurrence counts, and each continuation by itself.
            (&plain, &[5, 1, 2, 3, 1, 2, 4, 5, 1, 2], &[(3, 3), (4, 2)]),
            // Occurrences may overlap.
            (&plain, &[7, 7, 7, 7], &[(7, 3)]),
            (&Dry { last_n: Some(4), ..plain.clone() }, &[1, 2, 3, 9, 9, 1, 2], &[]),
            (&Dry { last_n: Some(7), ..plain.clone() }, &[1, 2, 3, 9, 9, 1, 2], &[(3, 2)]),
            // A breaker ends what is compared, and is never made less likely.
            (&Dry { breakers: vec![2], ..plain.clone() }, &[1, 2, 3, 4, 5, 1, 2, 3, 4], &[(5, 2)]),
            (&Dry { breakers: vec![3], ..plain.clone() }, &[1, 2, 3, 1, 2], &[]),
            (&Dry { breakers: vec![2], ..plain.clone() }, &[1, 2, 3, 1, 2], &[]),
        ] {
            assert_eq!(found(how, tokens), wanted, "{tokens:?}, {how:?}");
        }
    }

    #[test]
    fn each_further_token_of_a_repetition_costs_a_factor() {
        let how = Dry { multiplier: 0.5, base: 2.0, ..Dry::DEFAULT };
        let mut logits = vec![1.0; 8];
        penalise(&mut logits, &how, &[5, 1, 2, 3, 1, 2, 4, 5, 1, 2]);
        assert_eq!(logits, [1.0, 1.0, 1.0, 0.0, 0.5, 1.0, 1.0, 1.0]);
        // However long it is, the logit stays a number.
        let mut logits = vec![1.0; 2];
        penalise(&mut logits, &Dry { base: 10.0, ..how }, &[1; 1000]);
        assert_eq!(logits, [1.0, -1e30]);
    }
}
