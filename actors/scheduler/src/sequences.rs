//! Where sequences are kept.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Index;

use troupe_protocol::SequenceId;

use crate::sequence::Sequence;

/// All sequences, by id. Each has a place of its own as long as it is here, so that those who hold its key find it in one
/// step: a plan asks for each row several times, among thousands that wait.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    places: Vec<Option<Sequence>>,
    free: Vec<u32>,
    by_id: BTreeMap<SequenceId, Key>,
}

/// A sequence and its place. It may be gone: another in its place is not taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) id: SequenceId,
    place: u32,
}

impl Sequences {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Of a sequence that is here.
    pub(crate) fn key(&self, id: SequenceId) -> Option<Key> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn insert(&mut self, sequence: Sequence) -> Key {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        let key = Key { id: sequence.request.id, place };
        self.places[place as usize] = Some(sequence);
        self.by_id.insert(key.id, key);
        key
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Sequence> {
        self.get(key)?;
        self.by_id.remove(&key.id);
        self.free.push(key.place);
        self.places[key.place as usize].take()
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Sequence> {
        self.places.get(key.place as usize)?.as_ref().filter(|sequence| sequence.request.id == key.id)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Sequence> {
        self.places.get_mut(key.place as usize)?.as_mut().filter(|sequence| sequence.request.id == key.id)
    }

    pub(crate) fn by_id(&self, id: SequenceId) -> Option<&Sequence> {
        self.get(self.key(id)?)
    }

    pub(crate) fn by_id_mut(&mut self, id: SequenceId) -> Option<&mut Sequence> {
        self.get_mut(self.key(id)?)
    }

    /// In the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &Sequence)> {
        self.by_id.values().map(|&key| (key, &self[key]))
    }

    /// In the order of their places.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Sequence> {
        self.places.iter_mut().flatten()
    }
}

/// For those that cannot have gone.
impl Index<Key> for Sequences {
    type Output = Sequence;

    fn index(&self, key: Key) -> &Sequence {
        self.get(key).expect("it is here until it is removed")
    }
}

#[cfg(test)]
mod tests {
    use troupe_protocol::{
        BlockName, NewSequence, Priority, RequestPart, SamplingParams, SequenceId, TenantId,
    };

    use super::{Sequence, Sequences};
    use crate::Timestamp;

    fn sequence(id: u64) -> Sequence {
        let request = NewSequence {
            id: SequenceId(id),
            tenant: TenantId(0),
            part: RequestPart::First,
            prompt: vec![1],
            sampling: SamplingParams::greedy(),
            max_tokens: 1,
            stop_tokens: vec![],
            credit: 1,
            priority: Priority::Normal,
            timeout: None,
            cache_salt: 0,
            mask: None,
        };
        Sequence::new(request, Timestamp(0), BlockName(0))
    }

    #[test]
    fn a_key_outlives_its_sequence_but_finds_no_other() {
        let mut sequences = Sequences::default();
        let [first, second] = [7, 3].map(|id| sequences.insert(sequence(id)));
        assert_eq!(sequences.remove(first).map(|sequence| sequence.request.id), Some(SequenceId(7)));
        let third = sequences.insert(sequence(5));
        assert_eq!(third.place, first.place, "a free place is used again");
        assert!(sequences.get(first).is_none() && sequences.remove(first).is_none());
        assert_eq!((sequences.key(SequenceId(5)), sequences.key(SequenceId(7))), (Some(third), None));
        let ids: Vec<_> = sequences.iter().map(|(key, sequence)| (key, sequence.request.id)).collect();
        assert_eq!(ids, [(second, SequenceId(3)), (third, SequenceId(5))], "in the order of ids");
    }
}
