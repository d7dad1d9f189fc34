//! The actors: shells that own addresses, clocks and channels around pure parts that do the work.
//!
//! The scheduler decides through its pure core, the supervisor starts and restarts the executor, tokenizer threads make
//! prompts, and each generation has a session. They exchange typed messages and share nothing mutable. HTTP and the
//! executor's inside are not known here.

pub mod call_grammar;
pub mod executor;
pub mod guide;
pub mod metrics;
pub mod model_card;
pub mod output_syntax;
pub mod response_store;
pub mod scheduler;
pub mod session;
pub mod supervisor;
pub mod template;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tokenizer;
pub mod tokenizer_pool;

pub use troupe_parsers as parsers;
