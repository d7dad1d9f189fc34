//! Tenants as a person writes them, and what they are told about a mistake.

use troupe_config::{Config, ConfigError, DefaultValue, Priority, Sources, TENANT_FIELDS};

fn load(file: &str) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("troupe.toml");
    std::fs::write(&path, file).unwrap();
    Config::load(Sources { file: Some(path), ..Sources::default() })
}

/// What `printf %s "" | sha256sum` prints.
const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The message, with the folder of the file cut off.
fn refusal(file: &str) -> String {
    let message = load(file).map(|config| config.tenants).unwrap_err().to_string();
    let end = message.find("troupe.toml").expect("the file is named");
    let start = message[..end].rfind(['(', ' ']).map_or(0, |at| at + 1);
    format!("{}{}", &message[..start], &message[end..])
}

/// A digest of one digit.
fn digest(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// A tenant of this name with the key of this digit and further lines.
fn tenant(name: &str, key: char, more: &str) -> String {
    format!("[[tenants]]\nname = \"{name}\"\napi_keys_sha256 = [\"{}\"]\n{more}\n", digest(key))
}

#[test]
fn what_is_written_is_read_and_the_rest_has_its_default() {
    let limits = "weight = 3\nmax_running = 2\nmax_queued = 0\nrequests_per_minute = 60\ntokens_per_minute = 1_000\n\
                  max_priority = \"batch\"\ntimeout_seconds = 30\nmodels = [\"a\", \"b\"]";
    let file = tenant("zoe", 'A', limits) + &tenant("ann", 'b', "") + "[[tenants]]\nname = \"anonymous\"\n";
    let tenants = load(&file).unwrap().tenants;
    let names: Vec<&str> = tenants.iter().map(|tenant| tenant.name.as_str()).collect();
    assert_eq!(names, ["ann", "anonymous", "zoe"], "by name, wherever they are written");

    let (ann, zoe) = (&tenants[0], &tenants[2]);
    assert_eq!((ann.weight, ann.max_priority), (1, Priority::Interactive));
    assert_eq!((ann.max_running, ann.max_queued, ann.timeout_seconds), (None, None, None));
    assert_eq!((ann.requests_per_minute, ann.tokens_per_minute, ann.models.len()), (None, None, 0));
    assert_eq!(zoe.api_keys_sha256[0].0, [0xaa; 32], "large digits are digits too");
    assert_eq!((zoe.weight, zoe.max_priority), (3, Priority::Batch));
    assert_eq!((zoe.max_running, zoe.max_queued, zoe.timeout_seconds), (Some(2), Some(0), Some(30)));
    assert_eq!((zoe.requests_per_minute, zoe.tokens_per_minute), (Some(60), Some(1000)));
    assert_eq!(zoe.models, ["a", "b"]);
    assert!(load("").unwrap().tenants.is_empty());
}

/// One line of a tenant, and what is wrong with its value.
#[test]
fn a_wrong_value_is_told_with_tenant_key_and_line() {
    let table = [
        ("weight = 0", "0 is not between 1 and 1000"),
        ("weight = 1001", "1001 is not between 1 and 1000"),
        ("weight = 1.5", "is a number with a fraction, not a whole number"),
        ("max_running = 0", "0 is not between 1 and 4294967295"),
        ("requests_per_minute = 0", "0 is not between 1 and 4294967295"),
        ("tokens_per_minute = 0", "0 is not between 1 and 4294967295"),
        ("timeout_seconds = -1", "-1 is negative"),
        ("max_priority = \"urgent\"", "`urgent` is none of interactive, normal, batch"),
        ("models = \"m\"", "is a text, not an array of texts"),
        ("models = [\"m\", \"\"]", "item 2 is empty"),
    ];
    for (line, reason) in table {
        let (key, _) = line.split_once(" = ").unwrap();
        let message = format!("tenant `ann`: {key} (troupe.toml, line 4): {reason}");
        assert_eq!(refusal(&tenant("ann", 'a', line)), message);
    }
}

#[test]
fn mistakes_name_tenant_key_and_line() {
    let empty_key = "is the SHA-256 of an empty key, which no request can have";
    let no_digest = "is not 64 hexadecimal digits (`printf %s KEY | sha256sum` prints them)";
    let table = [
        (
            tenant("ann", 'a', "wieght = 2"),
            "troupe.toml, line 4: tenant `ann` has no option `wieght` (did you mean `weight`?)".to_owned(),
        ),
        (
            tenant("ann", 'a', "api_keys = []"),
            "troupe.toml, line 4: tenant `ann` has no option `api_keys`".to_owned(),
        ),
        (
            "[[tenants]]\nname = \"ann\"\napi_keys_sha256 = [\"secret\"]\n".to_owned(),
            format!("tenant `ann`: api_keys_sha256 (troupe.toml, line 3): item 1 {no_digest}"),
        ),
        (
            tenant("ann", 'g', ""),
            format!("tenant `ann`: api_keys_sha256 (troupe.toml, line 3): item 1 {no_digest}"),
        ),
        (
            format!("[[tenants]]\nname = \"ann\"\napi_keys_sha256 = [\"{}\", \"{OF_NOTHING}\"]\n", digest('a')),
            format!("tenant `ann`: api_keys_sha256 (troupe.toml, line 3): item 2 {empty_key}"),
        ),
        (
            format!("[admin]\nkey_sha256 = \"{}\"", OF_NOTHING.to_uppercase()),
            format!("admin.key_sha256 (troupe.toml, line 2): {empty_key}"),
        ),
        (
            tenant("ann", 'a', "weight = 1\nweight = 2"),
            "troupe.toml, line 5: duplicate key `weight`".to_owned(),
        ),
        (
            tenant("ann", 'a', "") + &format!("[admin]\nkey_sha256 = \"{}\"", digest('A')),
            "admin.key_sha256 (troupe.toml, line 6): is a key of tenant `ann` too, who would be an operator".to_owned(),
        ),
        (
            "[[tenants]]\nname = \"ann\"\n".to_owned(),
            "tenant `ann`: api_keys_sha256 (troupe.toml, line 1): is empty, so that nobody could be this tenant"
                .to_owned(),
        ),
        (
            tenant("anonymous", 'a', ""),
            "tenant `anonymous`: api_keys_sha256 (troupe.toml, line 3): requests without a key are this tenant's, \
             so it has no keys"
                .to_owned(),
        ),
        (
            tenant("ann", 'a', "") + &tenant("ann", 'b', ""),
            "tenant `ann`: name (troupe.toml, line 6): another tenant has this name".to_owned(),
        ),
        (
            tenant("ann", 'a', "") + &tenant("bob", 'a', ""),
            format!(
                "tenant `bob`: api_keys_sha256 (troupe.toml, line 7): {} is a key of tenant `ann` too",
                digest('a')
            ),
        ),
        (
            "[[tenants]]\nweight = 1\n".to_owned(),
            "tenant number 1: name (troupe.toml, line 1): is not set".to_owned(),
        ),
        (
            tenant("ann", 'a', "") + "[[tenants]]\nname = \"\"\n",
            "tenant number 2: name (troupe.toml, line 6): is empty".to_owned(),
        ),
        ("tenants = 1".to_owned(), "tenants (troupe.toml, line 1): is a whole number, not an array of tables".to_owned()),
        (
            "[tenants]\nname = \"ann\"".to_owned(),
            "tenants (troupe.toml, line 1): is a table, not an array of tables".to_owned(),
        ),
        (
            "tenants = [1]".to_owned(),
            "tenants (troupe.toml, line 1): is a whole number, not an array of tables".to_owned(),
        ),
        (
            "[[tenant]]\nname = \"ann\"".to_owned(),
            "troupe.toml, line 1: there is no option `tenant` (did you mean `tenants`?)".to_owned(),
        ),
        (
            "[admin]\nkey_sha256 = \"secret\"".to_owned(),
            format!("admin.key_sha256 (troupe.toml, line 2): {no_digest}"),
        ),
        (
            "[cache]\nshare = \"all\"".to_owned(),
            "cache.share (troupe.toml, line 2): `all` is none of tenant, server, off".to_owned(),
        ),
    ];
    for (file, message) in table {
        assert_eq!(refusal(&file), message, "{file}");
    }
}

#[test]
fn defaults_and_examples_are_values_that_the_field_takes() {
    for field in TENANT_FIELDS {
        assert!(field.help.starts_with(char::is_uppercase) && !field.help.ends_with('.'), "{}", field.name);
        let (DefaultValue::Value(text) | DefaultValue::Unset(_, text)) = field.default;
        let value = match text.parse::<u32>() {
            Ok(number) => number.to_string(),
            Err(_) if text.is_empty() => continue,
            Err(_) => format!("{text:?}"),
        };
        let file = match field.name {
            "name" => tenant(text, 'a', ""),
            name => tenant("ann", 'a', &format!("{name} = {value}")),
        };
        assert!(load(&file).is_ok(), "{}", field.name);
    }
}

#[test]
fn what_a_reload_changes_is_told_by_option() {
    let [before, after] = ["[server]\nport = 1", "[server]\nport = 2\n[cache]\nshare = \"off\""]
        .map(|file| load(file).unwrap());
    assert_eq!(before.differences(&after), ["server.port", "cache.share"]);
    let same = load(&("[server]\nport = 1\n".to_owned() + &tenant("ann", 'a', ""))).unwrap();
    assert!(before.differences(&same).is_empty(), "tenants are no options");
    assert_ne!(before, same);
}
