#![no_main]

#[path = "../checks/bodies.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::chat(bytes));
