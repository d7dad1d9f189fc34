//! The second tier of the prefix cache: what outlives a server, and what becomes of a damaged file.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::startup::assert_fails;
use crate::support::{PATIENCE, Server, chat, model};

const CHAT: &str = "/v1/chat/completions";

fn serve(dir: &Path) -> Server {
    Server::start(&["--cache-dir", dir.to_str().unwrap(), "--cache-size", "64MiB"])
}

/// Some two hundred tokens, the same every time.
fn ask(server: &Server) -> Value {
    let story =
        "The harbour master counts the boats that leave at dawn and those that come back. ".repeat(10);
    server.client.post(CHAT, &chat(&format!("{story}How many boats came back?"), 16)).json()
}

/// Tokens of its prompt that an answer found in the cache, and all.
fn prompt_tokens(answer: &Value) -> (u64, u64) {
    let usage = &answer["usage"];
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    (cached, usage["prompt_tokens"].as_u64().unwrap())
}

fn text(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

fn end(mut server: Server) {
    server.terminate();
    assert!(server.exit(PATIENCE).is_some_and(|status| status.success()), "it did not end");
}

fn blocks_file(dir: &Path) -> PathBuf {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files
        .into_iter()
        .find(|path| path.extension().is_some_and(|name| name == "blocks"))
        .expect("a file of blocks")
}

#[test]
fn a_restarted_server_finds_what_was_computed_and_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let first = serve(dir.path());
    let computed = ask(&first);
    assert_eq!(prompt_tokens(&computed).0, 0);
    end(first);

    let second = serve(dir.path());
    let found = ask(&second);
    let (cached, all) = prompt_tokens(&found);
    // Whole blocks of 32, and at least one token is computed.
    assert_eq!(cached, (all - 1) / 32 * 32);
    assert_eq!(text(&found), text(&computed));
    assert_eq!(second.metric("troupe_prefix_store_loaded_blocks_total"), ((all - 1) / 32) as f64);
    end(second);
}

#[test]
fn a_damaged_file_is_dropped_with_one_line_and_answers_stay_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let first = serve(dir.path());
    let computed = ask(&first);
    end(first);
    let file = blocks_file(dir.path());
    let mut bytes = fs::read(&file).unwrap();
    // In the contents of a block: places are filled from the first.
    let at = 100_000;
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();

    let second = serve(dir.path());
    let name = file.file_name().unwrap().to_str().unwrap();
    let told: Vec<_> = second.before_ready.iter().filter(|line| line.contains(name)).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    let again = ask(&second);
    assert_eq!(prompt_tokens(&again).0, 0);
    assert_eq!(text(&again), text(&computed));
    end(second);
    let third = serve(dir.path());
    assert!(prompt_tokens(&ask(&third)).0 > 0, "the file is used again");
}

#[test]
fn two_servers_do_not_share_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let _first = serve(dir.path());
    let (model, dir) = (model(), dir.path().to_str().unwrap());
    let second =
        ["--model", model.to_str().unwrap(), "--port", "0", "--cache-dir", dir, "--cache-size", "64MiB"];
    assert_fails(&second, 1, &["cache.dir", "in use"]);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let model = model();
    for (flags, code, names) in [
        (
            &["--cache-dir", path, "--cache-size", "4000TiB"][..],
            1,
            ["error: flag --cache-size: cache.size of ", "free"],
        ),
        (&["--cache-dir", file.to_str().unwrap()], 1, ["cache.dir", "file"]),
        (&["--cache-dir", path, "--cache-share", "off"], 2, ["cache.share", "cache.dir"]),
        (&["--cache-size", "4000TiB"], 1, ["error: flag --cache-size: cache.size of ", "memory"]),
    ] {
        let all = [&["--model", model.to_str().unwrap(), "--port", "0"][..], flags].concat();
        assert_fails(&all, code, &names);
    }
}
