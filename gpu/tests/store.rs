//! Blocks that went to the block store and came back hold what they held, bit for bit.

mod support;

use std::path::Path;

use serde_json::json;
use support::checkpoint::Checkpoint;
use support::driver::{Driver, Feed};
use support::{default_model, greedy_with_logprobs, request, seeded};
use troupe_protocol::{
    BlockId, BlockName, BlockTransfer, KvCacheDtype, LoadRequest, SampledToken, StoreId, StoreRequest,
    StoredBlock, TokenId, WeightDtype,
};

const COUNT: usize = 8;

fn prompt() -> Vec<TokenId> {
    (0..100).map(|at| at * 37 % 61).collect()
}

/// Full blocks of the prompt that may be loaded: its last token is always computed.
fn full_blocks(driver: &Driver) -> usize {
    (prompt().len() - 1) / driver.engine.limits().block_size as usize
}

/// Transfers of these blocks, in order, with names and places that tell them apart.
fn transfers(blocks: &[BlockId]) -> Vec<BlockTransfer> {
    let transfer = |(at, &block): (usize, &BlockId)| BlockTransfer {
        block,
        stored: StoreId(at as u32 + 1),
        name: BlockName(1 << 100 | at as u128),
    };
    blocks.iter().enumerate().map(transfer).collect()
}

fn generate(driver: &mut Driver) -> (Vec<SampledToken>, Vec<BlockId>) {
    let prompt = prompt();
    let mut sequence = driver.sequence(&prompt, greedy_with_logprobs(5), 120);
    driver.generate(&mut sequence, prompt.len(), COUNT);
    let result = (sequence.sampled.clone(), sequence.blocks.clone());
    driver.release(sequence);
    result
}

/// Saves those of these blocks that are full, behind a step that is in flight and before one that overwrites them.
fn save(driver: &mut Driver, blocks: &[BlockId]) {
    let count = full_blocks(driver);
    let others: Vec<TokenId> = (0..110).map(|at| at * 11 % 59).collect();
    let mut first = driver.sequence(&others[..40], seeded(1), 60);
    driver.submit(&mut [(&mut first, Feed::Known(40))]);
    // The blocks that are given out next.
    let mut second = driver.sequence(&others, seeded(2), 120);
    second.blocks = blocks.to_vec();
    let mut plan = driver.plan(&mut [(&mut second, Feed::Known(others.len()))]);
    plan.saves = transfers(&blocks[..count]);
    driver.engine.submit(&plan).unwrap();
    assert_eq!(driver.finish().unsaved, []);
    assert_eq!(driver.finish().unsaved, []);
    second.blocks.clear();
    [first, second].into_iter().for_each(|sequence| driver.release(sequence));
}

/// What is said after the prompt's full blocks were loaded.
fn load(driver: &mut Driver) -> Vec<SampledToken> {
    let (prompt, count) = (prompt(), full_blocks(driver));
    let mut sequence = driver.sequence(&prompt, greedy_with_logprobs(5), 120);
    driver.reserve(count, &mut sequence);
    let left = sequence.num_left();
    let mut plan = driver.plan(&mut [(&mut sequence, Feed::Known(left))]);
    plan.loads = transfers(&sequence.blocks[..count]);
    driver.engine.submit(&plan).unwrap();
    let outcome = driver.finish();
    sequence.take(&outcome);
    driver.generate(&mut sequence, 1, COUNT);
    let sampled = std::mem::take(&mut sequence.sampled);
    driver.release(sequence);
    sampled
}

fn stored(dir: Option<&Path>, model: &LoadRequest) -> LoadRequest {
    let dir = dir.map(|dir| dir.to_str().unwrap().to_owned());
    LoadRequest { store: Some(StoreRequest { dir, bytes: 64 << 20 }), ..model.clone() }
}

#[test]
fn what_comes_back_says_the_same_bit_for_bit() {
    let tiny = Checkpoint::tiny(&json!({})).write();
    let default = LoadRequest { kv_cache_bytes: Some(64 << 20), ..default_model() };
    for model in [
        default.clone(),
        LoadRequest { kv_cache_dtype: KvCacheDtype::Int8, ..default },
        // Slabs of stock operations.
        LoadRequest { weights: WeightDtype::Stored, ..request(tiny.path()) },
    ] {
        let dir = tempfile::tempdir().unwrap();
        for place in [None, Some(dir.path())] {
            let mut driver = Driver::load(&stored(place, &model));
            driver.shuffle_blocks();
            let (wanted, blocks) = generate(&mut driver);
            save(&mut driver, &blocks);
            assert_eq!(load(&mut driver), wanted, "{:?} in {place:?}", model.kv_cache_dtype);
        }
        // Another engine finds what the file holds.
        let mut driver = Driver::load(&stored(Some(dir.path()), &model));
        let found = driver.engine.info().stored.clone();
        let named = |transfer: &BlockTransfer| StoredBlock { at: transfer.stored, name: transfer.name };
        let saved = transfers(&vec![BlockId(0); full_blocks(&driver)]);
        assert_eq!(found, saved.iter().map(named).collect::<Vec<_>>());
        let loaded = load(&mut driver);
        assert_eq!(loaded, generate(&mut driver).0);
    }
}

#[test]
fn a_step_that_only_saves_is_a_step() {
    let mut driver = Driver::load(&stored(None, &default_model()));
    let (wanted, blocks) = generate(&mut driver);
    let mut plan = driver.plan(&mut []);
    plan.saves = transfers(&blocks[..full_blocks(&driver)]);
    driver.engine.submit(&plan).unwrap();
    let outcome = driver.finish();
    assert_eq!((outcome.step, outcome.rows, outcome.unsaved), (plan.step, vec![], vec![]));
    assert_eq!(load(&mut driver), wanted);
}

#[test]
fn what_the_store_does_not_hold_fails_the_step_and_nothing_else() {
    let mut driver = Driver::load(&stored(None, &default_model()));
    let (wanted, _) = generate(&mut driver);
    let prompt = prompt();
    let mut sequence = driver.sequence(&prompt, greedy_with_logprobs(5), 120);
    driver.reserve(full_blocks(&driver), &mut sequence);
    let left = sequence.num_left();
    let mut plan = driver.plan(&mut [(&mut sequence, Feed::Known(left))]);
    plan.loads = transfers(&sequence.blocks);
    plan.loads.truncate(full_blocks(&driver));
    let error = driver.engine.submit(&plan).unwrap_err().to_string();
    assert!(error.contains("stored-1"), "{error}");
    driver.engine.reset().unwrap();
    driver.release(sequence);
    assert_eq!(generate(&mut driver).0, wanted);
}

#[test]
fn without_a_store_saves_are_told_to_be_lost() {
    let mut driver = Driver::load(&default_model());
    let (_, blocks) = generate(&mut driver);
    let mut plan = driver.plan(&mut []);
    plan.saves = transfers(&blocks[..2]);
    driver.engine.submit(&plan).unwrap();
    assert_eq!(driver.finish().unsaved, plan.saves.iter().map(|save| save.name).collect::<Vec<_>>());
}
