//! `troupe serve`

use anyhow::Result;
use clap::{ArgMatches, Command};
use troupe_config::SECTIONS;

use super::{configuration, examples};

pub(super) fn command() -> Command {
    let command = Command::new("serve").about("Serve a model over the OpenAI API").after_help(examples(&[
        "troupe serve --model models/my-model.gguf",
        "troupe serve -m models/my-folder --host 0.0.0.0 --port 9000 --max-num-seqs 16 --device cpu",
        "troupe serve --config troupe.toml",
    ]));
    let sections: Vec<&str> = SECTIONS.iter().map(|section| section.name).collect();
    configuration::add_options(command, &sections)
}

pub(super) fn run(matches: &ArgMatches) -> Result<()> {
    let matches = matches.clone();
    let load = move || configuration::load_with_model(&matches);
    crate::boot::serve(load()?, Box::new(load))
}
