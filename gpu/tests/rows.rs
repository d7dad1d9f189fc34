//! What a sequence says depends on nothing but itself: not on its neighbours, its chunks, its place in memory, the
//! lookahead or a replay.

mod support;

use std::path::Path;

use serde_json::{Value, json};
use support::checkpoint::Checkpoint;
use support::driver::{Driver, Feed, Sequence};
use support::{default_model, greedy_with_logprobs, request, seeded};
use troupe_protocol::sampling::{Dry, DynamicTemperature, Mirostat, Xtc};
use troupe_protocol::{
    KvCacheDtype, LoadRequest, RowOutput, SampledToken, SamplingParams, SequenceId, TokenId, WeightDtype,
};

/// Tokens that each sequence generates.
const COUNT: usize = 16;

/// Scores of the stock body and of ours, in f32, sum in different orders.
const BODY_TOLERANCE: f32 = 1e-4;

/// The prompts of the parity fixture, shortest first. The last has some 600 tokens, the others less than 100.
fn prompts() -> Vec<Vec<TokenId>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/default_model.json");
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let ids = |case: &Value| -> Vec<TokenId> { serde_json::from_value(case["prompt"].clone()).unwrap() };
    let mut prompts: Vec<_> = cases.iter().map(ids).collect();
    prompts.sort_by_key(Vec::len);
    assert_eq!(prompts.iter().filter(|prompt| prompt.len() < 100).count(), prompts.len() - 1);
    prompts
}

fn ways() -> [SamplingParams; 2] {
    [greedy_with_logprobs(5), SamplingParams { logprobs: Some(5), ..seeded(42) }]
}

/// Parameters that only the host's chain knows.
fn host_ways() -> [SamplingParams; 4] {
    let base = SamplingParams { temperature: 1.0, seed: 42, logprobs: Some(5), ..SamplingParams::greedy() };
    let ways = [
        SamplingParams { mirostat: Some(Mirostat { tau: 3.0, eta: 0.5 }), ..base.clone() },
        SamplingParams { xtc: Some(Xtc { probability: 0.5, threshold: 0.05 }), ..base.clone() },
        SamplingParams {
            dry: Some(Dry { multiplier: 2.0, allowed_length: 1, ..Dry::DEFAULT }),
            ..base.clone()
        },
        SamplingParams {
            repetition_penalty: 1.3,
            repeat_last_n: Some(5),
            typical_p: 0.9,
            top_n_sigma: 2.0,
            dynamic_temperature: Some(DynamicTemperature { range: 0.5, exponent: 1.0 }),
            ..base
        },
    ];
    assert!(ways.iter().all(SamplingParams::on_host));
    ways
}

fn max_len(prompt: &[TokenId]) -> u32 {
    (prompt.len() + COUNT) as u32
}

/// All that was reported of a prompt given whole, alone.
fn alone(driver: &mut Driver, prompt: &[TokenId], sampling: &SamplingParams) -> Vec<SampledToken> {
    let mut sequence = driver.sequence(prompt, sampling.clone(), max_len(prompt));
    driver.generate(&mut sequence, prompt.len(), COUNT);
    let sampled = std::mem::take(&mut sequence.sampled);
    driver.release(sequence);
    sampled
}

#[test]
fn alone_or_beside_seven_others_in_one_chunk_or_in_five() {
    let mut driver = Driver::load(&default_model());
    let mut prompts = prompts();
    prompts.pop();
    let prompt = prompts.last().unwrap();
    for sampling in ways().into_iter().chain(host_ways()) {
        let wanted = alone(&mut driver, prompt, &sampling);
        for chunks in [1, 5] {
            let mut others: Vec<_> = (0..7)
                .map(|at| {
                    let prompt = &prompts[at % prompts.len()];
                    driver.sequence(prompt, seeded(at as u64), 200)
                })
                .collect();
            let mut subject = driver.sequence(prompt, sampling.clone(), max_len(prompt));
            beside(&mut driver, &mut subject, &mut others, prompt.len().div_ceil(chunks));
            assert_eq!(subject.sampled, wanted, "{chunks} chunks, {sampling:?}");
            others.into_iter().chain([subject]).for_each(|sequence| driver.release(sequence));
        }
    }
}

/// Steps all together, the subject in the middle of the rows and in chunks, until it has generated its tokens.
fn beside(driver: &mut Driver, subject: &mut Sequence, others: &mut [Sequence], chunk: usize) {
    while subject.generated().len() < COUNT {
        let (left, right) = others.split_at_mut(3);
        let own = Feed::Known(subject.num_left().min(chunk));
        let known = |sequence: &mut Sequence| Feed::Known(sequence.num_left());
        let mut rows = Vec::new();
        rows.extend(left.iter_mut().map(|other| (known(other), other)));
        rows.push((own, &mut *subject));
        rows.extend(right.iter_mut().map(|other| (known(other), other)));
        let mut rows: Vec<_> = rows.into_iter().map(|(feed, sequence)| (sequence, feed)).collect();
        driver.step(&mut rows);
    }
}

#[test]
fn a_long_prompt_in_any_chunks() {
    for kv_cache_dtype in [KvCacheDtype::Auto, KvCacheDtype::Int8] {
        chunks_do_not_matter(&LoadRequest { kv_cache_dtype, ..default_model() });
    }
}

fn chunks_do_not_matter(model: &LoadRequest) {
    let mut driver = Driver::load(model);
    let prompt = prompts().pop().unwrap();
    let in_chunks = |chunk| {
        let mut sequence = driver.sequence(&prompt, greedy_with_logprobs(20), max_len(&prompt));
        driver.generate(&mut sequence, chunk, 3);
        let sampled = std::mem::take(&mut sequence.sampled);
        driver.release(sequence);
        sampled
    };
    let [whole, five, odd] = [prompt.len(), prompt.len().div_ceil(5), 67].map(in_chunks);
    assert_eq!(five, whole);
    assert_eq!(odd, whole);
}

#[test]
fn lookahead_says_what_waiting_says() {
    let mut driver = Driver::load(&default_model());
    let prompts = prompts();
    let prompt = &prompts[1];
    for sampling in ways() {
        let wanted = alone(&mut driver, prompt, &sampling);
        let mut subject = driver.sequence(prompt, sampling.clone(), max_len(prompt));
        let mut other = driver.sequence(&prompts[2], seeded(3), max_len(&prompts[2]));
        driver.submit(&mut [(&mut subject, Feed::Known(prompt.len()))]);
        // The other's prompt rides with the subject's first decode, so that known and sampled tokens mix.
        driver.submit(&mut [(&mut other, Feed::Known(prompts[2].len())), (&mut subject, Feed::Sampled)]);
        while subject.generated().len() < COUNT {
            let outcome = driver.finish();
            subject.take(&outcome);
            driver.submit(&mut [(&mut other, Feed::Sampled), (&mut subject, Feed::Sampled)]);
        }
        assert_eq!(subject.sampled, wanted, "{sampling:?}");
        // Rows of the steps that are still in flight are not wanted any more.
        while driver.engine.num_in_flight() > 0 {
            driver.finish();
        }
        [subject, other].into_iter().for_each(|sequence| driver.release(sequence));
    }
}

#[test]
fn a_replay_goes_on_where_the_sequence_was() {
    let mut driver = Driver::load(&default_model());
    let prompt = &prompts()[2];
    let penalties = SamplingParams {
        repetition_penalty: 1.3,
        presence_penalty: 0.5,
        frequency_penalty: 0.5,
        ..seeded(11)
    };
    for sampling in ways().into_iter().chain([penalties]).chain(host_ways()) {
        let wanted = alone(&mut driver, prompt, &sampling);
        let mut subject = driver.sequence(prompt, sampling.clone(), max_len(prompt));
        driver.generate(&mut subject, prompt.len(), 7);
        let blocks = subject.blocks.clone();
        let mut subject = driver.replay(subject);
        driver.generate(&mut subject, 9, 8);
        assert!(subject.blocks.iter().all(|block| !blocks.contains(block)));
        let mut subject = driver.replay(subject);
        driver.generate(&mut subject, 1000, COUNT);
        assert_eq!(subject.sampled, wanted, "{sampling:?}");
        driver.release(subject);
    }
}

#[test]
fn a_token_that_the_host_chooses_cannot_be_gone_on_from_unread() {
    let folder = Checkpoint::tiny(&json!({})).write();
    let mut driver = Driver::load(&request(folder.path()));
    let [sampling, ..] = host_ways();
    let mut subject = driver.sequence(&[1, 2, 3], sampling, 10);
    driver.submit(&mut [(&mut subject, Feed::Known(3))]);
    let plan = driver.plan(&mut [(&mut subject, Feed::Sampled)]);
    let error = driver.engine.submit(&plan).unwrap_err().to_string();
    assert!(error.contains("wants the token of step-0, but holds none"), "{error}");
    driver.finish();
}

#[test]
fn blocks_in_any_order_hold_the_same() {
    let mut driver = Driver::load(&default_model());
    let prompt = &prompts()[4];
    let wanted = ways().map(|sampling| alone(&mut driver, prompt, &sampling));
    driver.shuffle_blocks();
    assert_eq!(ways().map(|sampling| alone(&mut driver, prompt, &sampling)), wanted);
}

#[test]
fn a_prefix_that_another_computed_changes_nothing() {
    let mut driver = Driver::load(&default_model());
    let prompts = prompts();
    for prompt in &prompts[prompts.len() - 2..] {
        for sampling in ways() {
            let mut first = driver.sequence(prompt, sampling.clone(), max_len(prompt));
            driver.generate(&mut first, prompt.len(), COUNT);
            let full = (prompt.len() - 1) / driver.engine.limits().block_size as usize;
            for count in [1, full / 2, full] {
                let mut second = driver.sequence(prompt, sampling.clone(), max_len(prompt));
                driver.share(&first, count, &mut second);
                driver.generate(&mut second, prompt.len(), COUNT);
                assert_eq!(second.sampled, first.sampled, "{count} blocks of {full}");
            }
        }
    }
}

#[test]
fn outcomes_come_in_the_order_of_the_plans_rows() {
    let folder = Checkpoint::tiny(&json!({})).write();
    let mut driver = Driver::load(&request(folder.path()));
    let mut sequences: Vec<_> = [5, 1, 3, 1, 2]
        .map(|len| {
            let prompt: Vec<TokenId> = (0..len).collect();
            driver.sequence(&prompt, SamplingParams::greedy(), 20)
        })
        .into();
    let mut rows: Vec<_> = sequences.iter_mut().map(|sequence| (sequence, Feed::Known(1))).collect();
    for (at, count) in [(0, 5), (2, 2), (4, 2)] {
        rows[at].1 = Feed::Known(count);
    }
    let plan = driver.plan(&mut rows);
    driver.engine.submit(&plan).unwrap();
    let found: Vec<SequenceId> = driver.finish().rows.iter().map(|row| row.sequence).collect();
    let sampled = plan.rows.iter().filter(|row| row.output == RowOutput::Sample);
    let wanted: Vec<SequenceId> = sampled.map(|row| row.sequence).collect();
    assert_eq!(found, wanted);
    // The third row holds only a part of its prompt.
    assert_eq!(wanted.len(), 4);
}

/// Reads fixed sequences of several lengths in ragged steps, and what follows the last token of every row.
fn ragged_logprobs(driver: &mut Driver) -> Vec<Vec<Vec<(TokenId, f32)>>> {
    let lens = [1, 7, 8, 9, 40, 64, 90, 3];
    let mut sequences: Vec<_> = lens
        .map(|len| {
            let tokens: Vec<TokenId> = (0..len).map(|at| (at * at + len) % 64).collect();
            driver.sequence(&tokens, greedy_with_logprobs(64), len)
        })
        .into();
    for step in 0_usize.. {
        let mut rows = Vec::new();
        for (at, sequence) in sequences.iter_mut().enumerate().filter(|(_, s)| s.generated().is_empty()) {
            // Single tokens, short and long chunks, and rows that sit a step out.
            let chunk = [1, 1, 5, 0, 17, 1, 30][(step * 3 + at * 5) % 7];
            let count = sequence.num_left().min(chunk);
            if count > 0 {
                rows.push((sequence, Feed::Probe(count)));
            }
        }
        if !rows.is_empty() {
            driver.step(&mut rows);
        } else if sequences.iter().all(|sequence| !sequence.generated().is_empty()) {
            break;
        }
    }
    let by_id = |token: &SampledToken| {
        let mut top = token.logprobs.clone().unwrap().top;
        top.sort_by_key(|&(id, _)| id);
        top
    };
    sequences.iter().map(|sequence| sequence.sampled.iter().map(by_id).collect()).collect()
}

#[test]
fn the_stock_body_of_attention_computes_what_ours_does() {
    for changes in [
        json!({}),
        json!({"num_key_value_heads": 1}),
        json!({"num_key_value_heads": 4, "head_dim": 24, "tie_word_embeddings": true}),
    ] {
        let folder = Checkpoint::tiny(&changes).write();
        // Stored as f32, the weights and products are the same; the choice is between the bodies only.
        let [ours, stock] = [WeightDtype::F32, WeightDtype::Stored].map(|weights| {
            let mut request = request(folder.path());
            request.weights = weights;
            let mut driver = Driver::load(&request);
            driver.shuffle_blocks();
            ragged_logprobs(&mut driver)
        });
        let pairs = ours.iter().flatten().flatten().zip(stock.iter().flatten().flatten());
        for ((id, ours), (_, stock)) in pairs {
            assert!((ours - stock).abs() <= BODY_TOLERANCE, "{changes}, token {id}: {ours} and {stock}");
        }
        assert_eq!(ours.iter().flatten().count(), stock.iter().flatten().count());
    }
}
