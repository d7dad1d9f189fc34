#![no_main]

#[path = "../checks/events.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::events(bytes));
