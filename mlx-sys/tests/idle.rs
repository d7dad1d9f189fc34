//! The threads of our kernels and of BLAS sleep when there is no work. One test: CPU time belongs to the process.
#![cfg(target_os = "linux")]

use std::sync::mpsc;
use std::time::Duration;

use mlx_sys::{Array, Dtype};

/// CPU time of all threads of this process, in scheduler ticks (a hundredth of a second).
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn wait(milliseconds: u64) {
    let (_keep, never) = mpsc::channel::<()>();
    assert!(never.recv_timeout(Duration::from_millis(milliseconds)).is_err());
}

#[test]
fn nothing_runs_when_there_is_no_work() {
    let a = Array::full(&[700, 700], 0.5_f32).unwrap();
    // One product goes to our kernel, the other to OpenBLAS.
    let ours = a.matmul(&a.transpose(&[1, 0]).unwrap()).unwrap();
    let theirs = a.matmul(&a).unwrap().astype(Dtype::F32).unwrap();
    mlx_sys::eval(&[&ours, &theirs]).unwrap();
    // Other load may delay the way to sleep; a thread that spins never lets such a time pass.
    let mut times = (0..20).map(|_| {
        let before = cpu_ticks();
        wait(800);
        cpu_ticks() - before
    });
    let busy: Vec<u64> = times.by_ref().take_while(|&ticks| ticks > 1).collect();
    assert!(busy.len() < 20, "{busy:?} ticks of 80");
}
