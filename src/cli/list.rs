//! `troupe list`: the models in a folder.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use serde::Serialize;
use troupe_model_files::{ModelFiles, Summary};

use super::{examples, models, units};

#[derive(Args, Debug)]
struct ListArgs {
    /// Folder to look in, three levels deep
    #[arg(long, value_name = "DIR", default_value = models::DEFAULT_DIR)]
    dir: PathBuf,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

pub(super) fn command() -> Command {
    ListArgs::augment_args(Command::new("list"))
        .about("List the models in a folder")
        .after_help(examples(&["troupe list", "troupe list --dir /data/models --json"]))
}

pub(super) fn run(matches: &ArgMatches) -> Result<()> {
    let args = ListArgs::from_arg_matches(matches)?;
    let listed = list(&args.dir)?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&listed)?)?;
    } else if listed.is_empty() {
        eprintln!("there is no model in {}", args.dir.display());
    } else {
        write!(out, "{}", table(&listed))?;
    }
    Ok(())
}

/// One model, or why it is none.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    path: PathBuf,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn list(dir: &Path) -> Result<Vec<Listed>> {
    let paths = models::paths(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    Ok(paths.into_iter().map(|path| listed(dir, path)).collect())
}

fn listed(dir: &Path, path: PathBuf) -> Listed {
    let name = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
    match ModelFiles::open(&path) {
        Ok(files) => Listed { name, path, summary: Some(files.summary()), error: None },
        Err(error) => Listed { name, path, summary: None, error: Some(error.to_string()) },
    }
}

fn table(listed: &[Listed]) -> String {
    let header = ["name", "format", "architecture", "parameters", "size", "quantisation"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(header).chain(listed.iter().map(row)).collect();
    let widths: Vec<usize> =
        (0..6).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        // What is wrong with a model takes the rest of its line, and no column's width.
        if let Some(error) = index.checked_sub(1).and_then(|i| listed[i].error.as_deref()) {
            text.push_str(&format!("  unreadable: {error}"));
        }
        text.push('\n');
    }
    text
}

fn row(listed: &Listed) -> [String; 6] {
    let Some(summary) = &listed.summary else {
        return [listed.name.as_str(), "", "", "", "", ""].map(str::to_owned);
    };
    [
        listed.name.clone(),
        super::inspect::format_name(summary.format).to_owned(),
        summary.architecture.clone().unwrap_or_else(|| "?".to_owned()),
        units::count(summary.num_parameters),
        units::bytes(summary.file_bytes),
        summary.quantization.clone().unwrap_or_else(|| "none".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::inspect::test_model;

    #[test]
    fn models_are_listed_and_broken_ones_say_why() {
        let dir = tempfile::tempdir().unwrap();
        test_model::write(&dir.path().join("owner/good"));
        std::fs::write(dir.path().join("broken.gguf"), "not a model").unwrap();
        let listed = list(dir.path()).unwrap();
        assert_eq!(listed.len(), 2);
        let text = table(&listed);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("broken.gguf") && lines[1].contains("unreadable: "), "{text}");
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(words[..4], ["owner/good", "safetensors", "test", "1.1"], "{text}");

        let json = serde_json::to_value(&listed).unwrap();
        assert_eq!(json[1]["num_parameters"], test_model::PARAMETERS);
        assert!(json[0]["error"].is_string() && json[0].get("num_parameters").is_none());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let message = format!("{:#}", list(Path::new("/nowhere")).unwrap_err());
        assert!(message.starts_with("cannot read /nowhere: "), "{message}");
    }
}
