//! The checks of the fuzz targets (`make fuzz`) on the seeds and on mutations of them, the same ones in each run.

use crate::support::root;

#[path = "../fuzz/checks/mod.rs"]
mod checks;

use checks::{bodies, calls, events, grammars, templates};

/// Mutations of each target's seeds, in all.
const ROUNDS: usize = 12_000;
/// The same where each takes milliseconds.
const FEW_ROUNDS: usize = 2000;
/// The most changes that are laid upon each other.
const MAX_CHANGES: u64 = 6;

/// Bytes that mean something to JSON, to Jinja, to a grammar, to a call of a tool, or to a stream of events.
const WORDS: [&[u8]; 24] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"null",
    b"-1",
    b"1e309",
    b"18446744073709551616",
    b"\\ud800",
    b"{{",
    b"}}",
    b"{% for x in messages %}",
    b"{% endfor %}",
    b"| tojson",
    b"\n",
    b"\r",
    b"data: ",
    b"\xff",
    b"\xc3",
    b"\0",
    b"\xef\xbf\xbd",
];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Changes a few bytes: overwritten, cut out, doubled, or a word put in.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.next() % MAX_CHANGES {
        let at = random.below(bytes.len());
        let end = (at + random.below(12)).min(bytes.len());
        match random.next() % 4 {
            0 if at < bytes.len() => bytes[at] = random.next() as u8,
            1 => drop(bytes.drain(at..end)),
            2 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let word = WORDS[random.below(WORDS.len())];
                bytes.splice(at..at, word.iter().copied());
            }
        }
    }
}

/// Feeds `check` with the seeds of one target and with so many mutations of them.
fn feed(target: &str, rounds: usize, check: fn(&[u8])) {
    let mut seeds: Vec<_> = std::fs::read_dir(root().join("tests/fuzz/seeds").join(target))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    seeds.sort();
    assert!(!seeds.is_empty());
    let each = rounds / seeds.len();
    for path in seeds {
        let seed = std::fs::read(&path).unwrap();
        check(&seed);
        for round in 0..each {
            let mut bytes = seed.clone();
            mutate(&mut bytes, &mut Random(round as u64));
            check(&bytes);
        }
    }
}

#[test]
fn bodies_are_taken_or_refused() {
    feed("chat", ROUNDS, bodies::chat);
    feed("completions", ROUNDS, bodies::completions);
    feed("messages", ROUNDS, bodies::messages);
    feed("responses", ROUNDS, bodies::responses);
}

#[test]
fn calls_are_the_same_in_any_pieces() {
    feed("calls", ROUNDS, calls::calls);
}

#[test]
fn grammars_are_refused_or_say_what_was_asked_for() {
    feed("grammars", FEW_ROUNDS, grammars::grammars);
}

#[test]
fn templates_end() {
    feed("templates", ROUNDS, templates::templates);
}

#[test]
fn events_are_the_same_in_any_pieces() {
    feed("events", ROUNDS, events::events);
}
