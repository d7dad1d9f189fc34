//! The executor's thread through its lanes: every command has its answer, and none that fails costs the next one.

mod support;

use crossbeam_channel::{Sender, unbounded};
use support::running::{PATIENCE, Running, first, next, tiny};
use support::{BLOCK_SIZE, default_model, request};
use tempfile::TempDir;
use troupe_gpu::Executor;
use troupe_protocol::{
    BlockId, Fault, GpuCommand, GpuEvent, History, LoadRequest, RowOutput, RowTokens, SequenceId, SlotId,
    StepId, StepOutcome, StepPlan, StoreRequest, TokenId, TokenMask,
};

fn broken() -> TempDir {
    let folder = tiny();
    std::fs::write(folder.path().join("model.safetensors"), [0; 20]).unwrap();
    folder
}

#[test]
fn a_model_that_cannot_be_loaded_does_not_keep_the_next_from_it() {
    let running = Running::start();
    for _ in 0..2 {
        let folder = broken();
        running.load(&folder);
        match running.event() {
            GpuEvent::Fault(Fault::Load { message, option }) => {
                assert!(message.contains("model.safetensors"), "{message}");
                assert_eq!(option, None, "the files are to blame");
            }
            event => panic!("{event:?}"),
        }
        running.submit(first(0));
        assert!(running.failure(0).contains("no model is loaded"));
    }
    let folder = tiny();
    running.load(&folder);
    match running.event() {
        GpuEvent::Ready(info) => {
            assert_eq!(info.architecture, "llama");
            assert_eq!((info.limits.block_size, info.limits.max_num_seqs), (BLOCK_SIZE, 16));
        }
        event => panic!("{event:?}"),
    }
    running.submit(first(0));
    assert_eq!(running.outcome().rows.len(), 1);
    // A failed load gives up the model that was there: two at once may not fit.
    let folder = broken();
    running.load(&folder);
    assert!(matches!(running.event(), GpuEvent::Fault(Fault::Load { .. })));
    running.submit(first(1));
    assert!(running.failure(1).contains("no model is loaded"));
}

#[test]
fn an_option_that_keeps_a_model_from_being_loaded_is_named() {
    let running = Running::start();
    let folder = tiny();
    let load = |request| {
        running.send(GpuCommand::Load(request));
        match running.event() {
            GpuEvent::Fault(fault @ Fault::Load { option, .. }) => {
                (option.expect("an option is to blame"), fault.to_string())
            }
            event => panic!("{event:?}"),
        }
    };
    let usual = || request(folder.path());
    let store = |dir: &str, bytes| Some(StoreRequest { dir: Some(dir.to_owned()), bytes });
    let dir = folder.path().join("cache");
    for (request, expected, begin) in [
        (
            LoadRequest { kv_cache_bytes: Some(100), ..usual() },
            "engine.kv_cache_memory",
            "100 bytes for KV blocks",
        ),
        (
            LoadRequest { max_model_len: Some(1 << 20), ..usual() },
            "engine.max_model_len",
            "max_model_len of 1048576",
        ),
        (
            LoadRequest { store: store(dir.to_str().unwrap(), 1), ..usual() },
            "cache.size",
            "cache.size of 1 bytes",
        ),
        (
            LoadRequest { store: store("/proc/self/cache", 1 << 20), ..usual() },
            "cache.dir",
            "cache.dir: cannot use",
        ),
    ] {
        let (option, message) = load(request);
        assert_eq!(option, expected);
        assert!(message.starts_with(begin), "{message}");
    }
}

#[test]
fn progress_counts_up_to_all_tensors() {
    let running = Running::start();
    running.send(GpuCommand::Load(default_model()));
    let (mut last, mut all) = (0, None);
    loop {
        match running.events.recv_timeout(PATIENCE).unwrap() {
            GpuEvent::Loading { done, total } => {
                assert_eq!(done, last + 1);
                assert_eq!(*all.get_or_insert(total), total);
                last = done;
            }
            GpuEvent::Ready(_) => break,
            event => panic!("{event:?}"),
        }
    }
    assert_eq!(Some(last), all);
}

#[test]
fn plans_that_contradict_the_engine_fail_and_cost_the_next_nothing() {
    let running = Running::with_model();
    running.submit(first(0));
    let sound = running.outcome();
    let with = |change: fn(&mut StepPlan)| {
        let mut plan = first(0);
        change(&mut plan);
        plan
    };
    let history = |id| Some(History { prompt: vec![id], generated: vec![], mu: None });
    let mut beyond = first(0);
    beyond.bindings[0].history = history(64);
    for (plan, part) in [
        (with(|plan| plan.rows[0].tokens = RowTokens::Sampled(StepId(3))), "step-3"),
        (with(|plan| plan.rows[0].slot = SlotId(1)), "slot-1 has no owner"),
        (with(|plan| plan.rows[0].slot = SlotId(16)), "slot-16 has no owner"),
        (with(|plan| plan.bindings[0].slot = SlotId(16)), "slot-16 is out of range"),
        (with(|plan| plan.rows[0].blocks.clear()), "0 blocks do not hold 5 tokens from 0 on"),
        (with(|plan| plan.rows[0].start = 12), "2 blocks do not hold 5 tokens from 12 on"),
        (with(|plan| plan.rows[0].start = u32::MAX), "blocks do not hold"),
        (with(|plan| plan.rows[0].blocks[0] = BlockId(u32::MAX)), "block-4294967295 is not below"),
        (with(|plan| plan.rows[0].blocks.push(BlockId(4096))), "block-4096 is not below the 4096 blocks"),
        (with(|plan| plan.rows[0].tokens = RowTokens::Prompt(vec![])), "without tokens"),
        (with(|plan| plan.rows[0].tokens = RowTokens::Prompt(vec![1, 64])), "token 64 is not below"),
        (with(|plan| plan.rows.clear()), "no rows"),
        (with(|plan| plan.bindings[0].sampling.presence_penalty = 1.0), "penalties without a history"),
        (with(|plan| plan.bindings[0].sampling.logit_bias = vec![(64, 1.0)]), "token 64"),
        (beyond, "token 64 is beyond the vocabulary"),
    ] {
        let about = format!("{plan:?}");
        running.submit(plan);
        let message = running.failure(0);
        assert!(message.contains(part), "`{part}` is not in: {message}; {about}");
        // The failure took all slots: a plan that binds anew finds the same.
        running.submit(first(0));
        assert_eq!(running.outcome(), sound, "after {about}");
    }
}

#[test]
fn steps_before_a_failed_one_are_answered_and_later_ones_fail_too() {
    let running = Running::with_model();
    running.submit(first(0));
    let mut wrong = next(1);
    wrong.rows[0].blocks.clear();
    running.submit(wrong);
    running.submit(next(2));
    assert_eq!(running.outcome().step, StepId(0));
    assert!(running.failure(1).contains("0 blocks"));
    assert!(running.failure(2).contains("slot-0 has no owner"));
}

#[test]
fn chunks_without_a_token_are_answered_too() {
    let running = Running::with_model();
    let mut plan = first(0);
    plan.rows[0].output = RowOutput::None;
    running.submit(plan);
    assert_eq!(
        running.outcome(),
        StepOutcome { step: StepId(0), rows: vec![], prompts: vec![], unsaved: vec![] }
    );
}

/// Tokens that may be chosen, of the tiny model's 64.
fn only(tokens: &[TokenId]) -> TokenMask {
    let mut mask = TokenMask::none(64);
    tokens.iter().for_each(|&token| mask.allow(token));
    mask
}

/// The step after the first, which waits for its mask.
fn waiting(step: u64) -> StepPlan {
    let mut plan = next(step);
    plan.rows[0].output = RowOutput::SampleLater;
    plan
}

#[test]
fn a_mask_that_comes_while_its_step_is_computed_says_the_same_as_one_that_came_with_it() {
    let running = Running::with_model();
    let mask = only(&[3, 11, 40]);
    running.submit(first(0));
    let token = running.outcome().rows[0].token.id;
    let mut known = next(1);
    (known.rows[0].tokens, known.rows[0].mask) = (RowTokens::Prompt(vec![token]), Some(mask.clone()));
    running.submit(known);
    let wanted = running.outcome();
    assert!(mask.allows(wanted.rows[0].token.id));

    running.submit(first(0));
    running.submit(waiting(1));
    assert_eq!(running.outcome().step, StepId(0));
    running.masks(1, vec![(SequenceId(1), mask)]);
    running.submit(next(2));
    assert_eq!((running.outcome(), running.outcome().step), (wanted, StepId(2)));
}

#[test]
fn a_row_whose_mask_does_not_come_gives_no_token_and_can_be_computed_again() {
    let running = Running::with_model();
    running.submit(first(0));
    running.submit(waiting(1));
    let token = running.outcome().rows[0].token.id;
    running.masks(1, vec![]);
    assert_eq!(
        running.outcome(),
        StepOutcome { step: StepId(1), rows: vec![], prompts: vec![], unsaved: vec![] }
    );
    let mut again = next(2);
    (again.rows[0].start, again.rows[0].tokens) = (5, RowTokens::Prompt(vec![token]));
    again.rows[0].mask = Some(only(&[40]));
    running.submit(again);
    assert_eq!(running.outcome().rows[0].token.id, 40);
}

#[test]
fn masks_that_do_not_fit_fail_their_step_and_those_of_no_step_are_ignored() {
    let running = Running::with_model();
    for (sequence, mask, part) in [
        (2, only(&[1]), "no row of it waits for a mask"),
        (1, TokenMask::none(64), "allows nothing"),
        (1, TokenMask::all(65), "3 words, and not 2"),
    ] {
        running.submit(first(0));
        running.submit(waiting(1));
        assert_eq!(running.outcome().step, StepId(0));
        running.masks(1, vec![(SequenceId(sequence), mask)]);
        let message = running.failure(1);
        assert!(message.contains(part), "{part}: {message}");
        running.masks(1, vec![(SequenceId(1), only(&[1]))]);
    }
    running.submit(first(2));
    assert_eq!(running.outcome().step, StepId(2));
}

#[test]
fn drain_does_not_wait_for_masks() {
    let running = Running::with_model();
    running.submit(first(0));
    running.submit(waiting(1));
    assert_eq!(running.outcome().step, StepId(0));
    running.send(GpuCommand::Drain);
    assert!(running.failure(1).contains("its masks did not come"));
    running.assert_stops();
}

#[test]
fn steps_are_answered_in_order_while_more_are_submitted() {
    let running = Running::with_model();
    running.submit(first(0));
    for step in 1..11 {
        running.submit(next(step));
        assert_eq!(running.outcome().step, StepId(step - 1));
    }
    assert_eq!(running.outcome().step, StepId(10));
    running.send(GpuCommand::Stats);
    match running.event() {
        GpuEvent::Stats(stats) => {
            assert_eq!(stats.steps, 11);
            assert!(stats.active_bytes > 0 && stats.peak_bytes >= stats.active_bytes);
        }
        event => panic!("{event:?}"),
    }
}

#[test]
fn loading_anew_answers_the_steps_in_flight_first() {
    let running = Running::with_model();
    running.submit(first(0));
    running.submit(next(1));
    let folder = tiny();
    running.load(&folder);
    assert_eq!([running.outcome().step, running.outcome().step], [StepId(0), StepId(1)]);
    assert!(matches!(running.event(), GpuEvent::Ready(_)));
}

#[test]
fn drain_answers_what_is_in_flight_and_stops() {
    let running = Running::with_model();
    running.submit(first(0));
    running.submit(next(1));
    running.send(GpuCommand::Drain);
    assert_eq!([running.outcome().step, running.outcome().step], [StepId(0), StepId(1)]);
    running.assert_stops();
}

#[test]
fn stop_ends_an_idle_executor_and_one_without_a_model() {
    for running in [Running::start(), Running::with_model()] {
        running.send(GpuCommand::Stop);
        running.assert_stops();
    }
}

#[test]
fn stop_overtakes_the_data_lane() {
    let running = Running::with_model();
    running.submit(first(0));
    running.send(GpuCommand::Stop);
    // The step may have been done before, but nothing comes after the end.
    assert_eq!(running.events.iter().last(), Some(GpuEvent::Stopped));
}

#[test]
fn an_executor_that_nobody_can_reach_stops() {
    let mut running = Running::with_model();
    running.submit(first(0));
    running.executor.take().unwrap().join();
    assert_eq!(running.events.iter().last(), Some(GpuEvent::Stopped));
}

#[test]
fn an_executor_that_lost_one_lane_stops() {
    let lanes: [fn(Executor) -> Sender<GpuCommand>; 2] =
        [|executor| executor.data, |executor| executor.urgent];
    for keep in lanes {
        let (sender, events) = unbounded();
        let executor = Executor::start(Box::new(move |event| drop(sender.send(event)))).unwrap();
        let _kept = keep(executor);
        assert_eq!(events.iter().last(), Some(GpuEvent::Stopped));
    }
}
