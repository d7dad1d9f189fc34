//! Log-probabilities of a prompt's tokens are those that each of its beginnings gives for the token that follows.

mod support;

use support::driver::{Driver, Feed};
use support::{default_model, greedy_with_logprobs, seeded};
use troupe_protocol::sampling::MAX_LOGPROBS;
use troupe_protocol::{SamplingParams, TokenId, TokenLogprobs};

/// What is told of each token.
const ALTERNATIVES: u8 = 5;

/// Ids of a text that the model did not write.
fn prompt() -> Vec<TokenId> {
    (0..70).map(|at| 400 + at * 7919 % 3000).collect()
}

fn scored() -> SamplingParams {
    SamplingParams { prompt_logprobs: Some(ALTERNATIVES), ..greedy_with_logprobs(0) }
}

/// What is told of the prompt when it comes in chunks of `chunk` tokens.
fn in_chunks(driver: &mut Driver, prompt: &[TokenId], chunk: usize) -> Vec<TokenLogprobs> {
    let mut sequence = driver.sequence(prompt, scored(), 128);
    driver.generate(&mut sequence, chunk, 2);
    let scored = std::mem::take(&mut sequence.scored);
    driver.release(sequence);
    scored
}

#[test]
fn a_prompt_is_as_likely_as_its_tokens_one_by_one() {
    let mut driver = Driver::load(&default_model());
    let prompt = prompt();
    let told = in_chunks(&mut driver, &prompt, prompt.len());
    assert_eq!(told.len(), prompt.len() - 1);

    let mut beginnings = driver.sequence(&prompt, greedy_with_logprobs(MAX_LOGPROBS), 128);
    for _ in 1..prompt.len() {
        driver.step(&mut [(&mut beginnings, Feed::Probe(1))]);
    }
    let mut found = 0;
    for ((told, token), sampled) in told.iter().zip(&prompt[1..]).zip(&beginnings.sampled) {
        let best = &sampled.logprobs.as_ref().unwrap().top;
        assert_eq!(told.top, best[..usize::from(ALTERNATIVES)]);
        if let Some((_, logprob)) = best.iter().find(|(id, _)| id == token) {
            assert_eq!(told.chosen, *logprob);
            found += 1;
        } else {
            assert!(told.chosen <= best[best.len() - 1].1, "{token} is among the best");
        }
    }
    // A text that nobody would write is hardly ever guessed.
    assert!((0..prompt.len() - 1).contains(&found), "{found}");
    driver.release(beginnings);
}

#[test]
fn chunks_and_neighbours_change_nothing() {
    let mut driver = Driver::load(&default_model());
    let prompt = prompt();
    let told = in_chunks(&mut driver, &prompt, prompt.len());
    for chunk in [1, 2, 33] {
        assert_eq!(in_chunks(&mut driver, &prompt, chunk), told, "chunks of {chunk}");
    }
    let mut others = [0, 1].map(|seed| driver.sequence(&prompt[..40], seeded(seed), 128));
    let mut subject = driver.sequence(&prompt, scored(), 128);
    while subject.num_left() > 1 {
        let [one, other] = &mut others;
        let known = Feed::Known(subject.num_left().min(25));
        let left = [one.num_left(), other.num_left()];
        driver.step(&mut [(one, Feed::Known(left[0])), (&mut subject, known), (other, Feed::Known(left[1]))]);
    }
    assert_eq!(subject.scored, told);
}

#[test]
fn more_than_a_step_may_score_is_refused() {
    let mut driver = Driver::load(&default_model());
    let most = driver.engine.limits().max_num_prompt_logprobs as usize;
    let prompt: Vec<TokenId> = (0..most as u32 + 2).collect();
    let mut sequence = driver.sequence(&prompt, scored(), 1024);
    let plan = driver.plan(&mut [(&mut sequence, Feed::Known(most + 1))]);
    let error = driver.engine.submit(&plan).unwrap_err().to_string();
    assert!(error.contains(&format!("{} tokens of prompts are to be scored", most + 1)), "{error}");
}
