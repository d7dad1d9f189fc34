//! Names of things. Each is its own type, so that a slot never passes for a block.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id! {
    /// One generation: a prompt, its sampling parameters and the tokens that came of it. Never reused.
    SequenceId(u64), "seq-"
}
id! {
    /// Index of a running sequence in device state (last token, penalty counts). Below
    /// [`max_num_seqs`](crate::EngineLimits::max_num_seqs); reused.
    SlotId(u32), "slot-"
}
id! {
    /// Index of a KV block. Below [`num_blocks`](crate::EngineLimits::num_blocks); reused.
    BlockId(u32), "block-"
}
id! {
    /// Index of a block in the block store, the second tier of the prefix cache. Below
    /// [`num_stored_blocks`](crate::EngineLimits::num_stored_blocks); reused.
    StoreId(u32), "stored-"
}
id! {
    /// One forward pass. Counts up from zero for the life of an executor's scheduler.
    StepId(u64), "step-"
}
id! {
    /// Who is served. Zero is the anonymous tenant.
    TenantId(u32), "tenant-"
}

impl TenantId {
    /// The tenant of requests that carry no key.
    pub const ANONYMOUS: Self = Self(0);
}

/// Names what a full block holds: its tokens, all tokens before them, and who may share it.
///
/// 128 bits, mixed with a key that clients do not know: equal names mean equal contents, and nobody can look for two
/// contents of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockName(pub u128);

/// Index into the vocabulary. A plain number, since it is also what tensors hold.
pub type TokenId = u32;
