//! The `troupe` binary.

fn main() {
    let config = troupe_config::Config::load(troupe_config::Sources::default());
    println!("{config:?}");
    let mut config = config.unwrap();
    config.model.path = Some(std::env::args().nth(1).unwrap().into());
    troupe::boot::serve(config).unwrap();
}
