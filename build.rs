//! Gives the executable the run-time search path of MLX: beside itself first, then where the build found it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rpath = std::env::var("DEP_TROUPE_GPU_RPATH").unwrap_or_default();
    for dir in rpath.split(':').filter(|dir| !dir.is_empty()) {
        println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{dir}");
    }
}
