//! The scheduler's core in a simulated world: an executor without a GPU that keeps books of what lies in every block, and
//! workloads that are made of one seed. The same seed gives the same history.

pub mod canary;
pub mod fake_gpu;
pub mod figures;
pub mod guide;
pub mod plot;
pub mod random;
pub mod replay;
pub mod run;
pub mod search;
pub mod sessions;
pub mod trace;
pub mod workload;
pub mod world;
