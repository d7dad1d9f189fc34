//! Precedence, and what a person is told about a mistake.

use troupe_config::{Config, ConfigError, OPTIONS, OptionSpec, Sources, unknown_variables};

fn load(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("troupe.toml");
    std::fs::write(&path, file).unwrap();
    Config::load(Sources {
        file: Some(path),
        variables: variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        flags: flags.iter().map(|(k, v)| (OptionSpec::find(k).unwrap(), (*v).to_owned())).collect(),
    })
}

/// The message, with the folder of the file cut off.
fn refusal(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    let message = load(file, variables, flags).unwrap_err().to_string();
    let Some(end) = message.find("troupe.toml") else { return message };
    let start = message[..end].rfind(['(', ' ']).map_or(0, |at| at + 1);
    format!("{}{}", &message[..start], &message[end..])
}

#[test]
fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
    let file = "[server]\nport = 1\n";
    let variable = [("TROUPE_SERVER_PORT", "2")];
    let flag = [("server.port", "3")];
    assert_eq!(load("", &[], &[]).unwrap().server.port, 8080);
    assert_eq!(load(file, &[], &[]).unwrap().server.port, 1);
    assert_eq!(load(file, &variable, &[]).unwrap().server.port, 2);
    assert_eq!(load(file, &variable, &flag).unwrap().server.port, 3);
}

#[test]
fn every_option_is_read_from_its_variable() {
    let defaults = toml::Table::try_from(load("", &[], &[]).unwrap()).unwrap();
    for option in OPTIONS {
        let text = match option.kind {
            troupe_config::Kind::Choice(words) => words[words.len() - 1],
            troupe_config::Kind::Size { .. } => "3MiB",
            troupe_config::Kind::Digest => &"3a".repeat(32),
            _ => "64",
        };
        let config = load("", &[(&option.variable(), text)], &[]).unwrap();
        assert_ne!(toml::Table::try_from(config).unwrap(), defaults, "{} = {text}", option.variable());
    }
}

#[test]
fn an_empty_variable_is_unset() {
    assert_eq!(load("", &[("TROUPE_SERVER_PORT", "")], &[]).unwrap().server.port, 8080);
}

#[test]
fn sizes_may_be_numbers_or_texts_in_a_file() {
    for value in ["536870912", "\"512MiB\"", "0x2000_0000"] {
        let config = load(&format!("[engine]\nkv_cache_memory = {value}"), &[], &[]).unwrap();
        assert_eq!(config.engine.kv_cache_memory, Some(512 << 20), "{value}");
    }
}

#[test]
fn mistakes_in_a_file_name_key_and_line() {
    let table = [
        (
            "[server]\n\nprot = 1",
            "troupe.toml, line 3: there is no option `server.prot` (did you mean `server.port`?)",
        ),
        ("[sever]\nport = 1", "troupe.toml, line 1: there is no option `sever` (did you mean `server`?)"),
        ("port = 1", "troupe.toml, line 1: there is no option `port` (did you mean `server.port`?)"),
        ("[engine]\ntemperature = 1", "troupe.toml, line 2: there is no option `engine.temperature`"),
        ("server = 1", "troupe.toml, line 1: there is no option `server`"),
        ("[server]\nport = \"80\"", "server.port (troupe.toml, line 2): is a text, not a whole number"),
        (
            "[server]\nport = 80.5",
            "server.port (troupe.toml, line 2): is a number with a fraction, not a whole number",
        ),
        ("[server]\nport = 65536", "server.port (troupe.toml, line 2): 65536 is not between 0 and 65535"),
        ("[server]\nport = -1", "server.port (troupe.toml, line 2): -1 is negative"),
        ("[server]\nhost = true", "server.host (troupe.toml, line 2): is a boolean, not a text"),
        ("[server]\nhost = \"\"", "server.host (troupe.toml, line 2): is empty"),
        ("[engine]\nblock_size = 48", "engine.block_size (troupe.toml, line 2): 48 is not a power of two"),
        ("[engine]\nblock_size = 0", "engine.block_size (troupe.toml, line 2): 0 is not a power of two"),
        (
            "[engine]\nblock_size = 512",
            "engine.block_size (troupe.toml, line 2): 512 is not between 1 and 256",
        ),
        (
            "[engine]\ndevice = \"cuda\"",
            "engine.device (troupe.toml, line 2): `cuda` is none of auto, cpu, gpu",
        ),
        (
            "[model]\naliases = [1]",
            "model.aliases (troupe.toml, line 2): item 1 is a whole number, not a text",
        ),
        ("[model]\naliases = \"a\"", "model.aliases (troupe.toml, line 2): is a text, not an array of texts"),
        (
            "[engine]\nkv_cache_memory = \"4G\"",
            "engine.kv_cache_memory (troupe.toml, line 2): the unit of `4G` is ambiguous: \
             write GB for powers of 1000 or GiB for powers of 1024",
        ),
        ("[server]\nport = 1\nport = 2", "troupe.toml, line 3: duplicate key `port`"),
    ];
    for (file, message) in table {
        assert_eq!(refusal(file, &[], &[]), message, "{file}");
    }
}

#[test]
fn mistakes_elsewhere_name_the_flag_or_variable() {
    assert_eq!(
        refusal("", &[("TROUPE_SERVER_PORT", "tcp://10.0.0.1:80")], &[]),
        "server.port (variable TROUPE_SERVER_PORT): `tcp://10.0.0.1:80` is not a whole number"
    );
    assert_eq!(
        refusal("", &[], &[("engine.max_num_seqs", "0")]),
        "engine.max_num_seqs (flag --max-num-seqs): 0 is not between 1 and 4096"
    );
}

#[test]
fn c100u_a_step_holds_a_token_of_every_sequence() {
    assert!(load("[engine]\nmax_num_seqs = 512", &[], &[]).is_ok());
    let both = [("engine.max_num_seqs", "9"), ("engine.max_num_batched_tokens", "8")];
    assert_eq!(
        refusal("", &[], &both),
        "engine.max_num_batched_tokens = 8 (flag --max-num-batched-tokens) is less than \
         engine.max_num_seqs = 9 (flag --max-num-seqs)"
    );
}

#[test]
fn a_missing_model_says_how_to_give_one() {
    let error = load("", &[], &[]).unwrap().model_path().unwrap_err();
    assert_eq!(
        error.to_string(),
        "model.path is not set: give --model, TROUPE_MODEL_PATH, or model.path in the configuration file"
    );
}

#[test]
fn a_missing_file_is_named() {
    let sources = Sources { file: Some("/nowhere/troupe.toml".into()), ..Sources::default() };
    let message = Config::load(sources).unwrap_err().to_string();
    assert_eq!(message, "cannot read the configuration file /nowhere/troupe.toml");
}

#[test]
fn mistyped_variables_are_reported_and_foreign_ones_are_not() {
    let unknown = |names: &[&str]| {
        let set: Vec<_> = names.iter().map(|&name| (name.to_owned(), "x".to_owned())).collect();
        unknown_variables(&set)
    };
    let mistyped =
        ["TROUPE_SERVER_PROT", "TROUPE_SEVER_PORT", "TROUPE_TENANTS_NAME", "TROUPE_FOO", "TROUPE_"];
    let near = [Some("TROUPE_SERVER_PORT"), Some("TROUPE_SERVER_PORT"), None, None, None];
    let expected =
        mistyped.iter().zip(near).map(|(name, near)| ((*name).to_owned(), near.map(str::to_owned)));
    assert_eq!(unknown(&mistyped), expected.collect::<Vec<_>>());
    let read = ["TROUPE_SERVER_HOST", "TROUPE_CONFIG", "TROUPE_API_KEY", "TROUPE_WHEELS", "TROUPE_SANITIZE"];
    assert_eq!(unknown(&read), []);
    assert_eq!(unknown(&["PATH", "TROUPES_PORT", "MY_TROUPE_FOO", "troupe_foo"]), []);
}

#[test]
fn each_option_knows_where_it_was_set() {
    let variables = [("TROUPE_SERVER_HOST", "::1")];
    let config = load("[cache]\nsize = \"1MiB\"", &variables, &[("server.port", "0")]).unwrap();
    for (key, told) in [
        ("cache.size", "troupe.toml, line 2"),
        ("server.host", "variable TROUPE_SERVER_HOST"),
        ("server.port", "flag --port"),
        ("server.workers", "the default"),
        ("log.level", "the default"),
    ] {
        let origin = config.origin(key).to_string();
        assert!(origin.ends_with(told), "{key}: {origin}");
    }
}

#[test]
fn a_cache_that_nobody_shares_is_not_kept() {
    let off = [("cache.share", "off")];
    for (key, flag, text, value) in
        [("cache.dir", "cache-dir", "kept", "\"kept\""), ("cache.size", "cache-size", "1MiB", "1048576")]
    {
        assert!(load("", &[], &[(key, text)]).is_ok());
        assert_eq!(
            refusal("", &[], &[off[0], (key, text)]),
            format!(
                "{key} = {value} (flag --{flag}) is of no use with cache.share = \"off\" (flag --cache-share)"
            )
        );
    }
}

#[test]
fn a_kept_cache_has_a_size() {
    let bytes = |flags: &[(&str, &str)]| load("", &[], flags).unwrap().cache.bytes();
    assert_eq!(bytes(&[]), None);
    assert_eq!(bytes(&[("cache.size", "3MiB")]), Some(3 << 20));
    assert_eq!(bytes(&[("cache.dir", "kept")]), Some(4 << 30));
    assert_eq!(bytes(&[("cache.dir", "kept"), ("cache.size", "3MiB")]), Some(3 << 20));
    assert_eq!(
        refusal("", &[], &[("cache.size", "0")]),
        format!("cache.size (flag --cache-size): 0 is not between 1048576 and {}", i64::MAX)
    );
}

#[test]
fn a_kept_cache_changes_with_a_restart() {
    let kept = load("[cache]\ndir = \"kept\"\nsize = \"3MiB\"", &[], &[]).unwrap();
    assert_eq!(load("", &[], &[]).unwrap().differences(&kept), ["cache.dir", "cache.size"]);
}
