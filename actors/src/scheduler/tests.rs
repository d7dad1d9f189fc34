use crossbeam_channel::bounded;
use troupe_protocol::LengthClasses;
use troupe_protocol::gpu::DATA_LANE;

use super::*;

const LIMITS: EngineLimits = EngineLimits {
    max_model_len: 64,
    max_num_seqs: 4,
    max_num_batched_tokens: 16,
    max_num_prompt_logprobs: 16,
    block_size: 8,
    num_blocks: 32,
    num_stored_blocks: 0,
    vocab_size: 100,
    length_classes: LengthClasses::One,
};

#[test]
fn c123_c275_a_server_whose_oldest_step_does_not_end_is_not_ready() {
    let mut scheduler = SchedulerActor::new(Config::default());
    assert!(!scheduler.status().ready, "there is no executor");
    let (data, _lane) = bounded(DATA_LANE);
    scheduler.executor_ready(LIMITS, vec![], data);
    assert!(scheduler.status().ready);
    let submitted = |since| Instant::now().checked_sub(since).expect("the clock is old enough");
    for (step, since, ready) in [(1, STUCK_AFTER / 2, true), (2, STUCK_AFTER + Duration::from_secs(1), true)]
    {
        scheduler.submitted.push_back((StepId(step), submitted(since)));
        assert_eq!(scheduler.status().ready, ready, "the oldest is what counts");
    }
    scheduler.step_ended(StepId(1));
    assert!(!scheduler.status().ready);
    scheduler.step_ended(StepId(2));
    assert!(scheduler.status().ready);
}
