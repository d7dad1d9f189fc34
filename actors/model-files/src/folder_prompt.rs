//! Chat templates and special tokens out of the files of a Hugging Face folder.

use std::path::Path;

use serde_json::Value;

use crate::error::{ModelFileError, Result};
use crate::json::{JsonFile, read_text};
use crate::prompt::{ChatTemplates, NamedTemplate, SpecialTokens};

const KEY: &str = "chat_template";
const DEFAULT: &str = "default";
/// The most further templates that are read from a folder.
const MAX_TEMPLATES: usize = 64;

/// In order of precedence: chat_template.jinja (with additional_chat_templates/*.jinja beside it), chat_template.json,
/// `chat_template` of tokenizer_config.json, which is one text or a list of named ones.
pub(crate) fn chat_templates(folder: &Path, tokenizer_config: &JsonFile) -> Result<ChatTemplates> {
    if let Some(default) = read_text(&folder.join("chat_template.jinja"))? {
        let named = additional_templates(&folder.join("additional_chat_templates"))?;
        return Ok(ChatTemplates { default: Some(default), named });
    }
    let file = JsonFile::read_or_empty(&folder.join("chat_template.json"))?;
    if file.get(KEY).is_some() {
        return from_key(&file);
    }
    from_key(tokenizer_config)
}

fn from_key(file: &JsonFile) -> Result<ChatTemplates> {
    let mut templates = ChatTemplates::default();
    match file.get(KEY) {
        None => {}
        Some(Value::String(text)) => templates.default = Some(text.clone()),
        Some(Value::Array(items)) => {
            for item in items {
                let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
                let (Some(name), Some(template)) = (text("name"), text("template")) else {
                    return Err(file.wrong(KEY, "a list of objects with `name` and `template`", item));
                };
                match name.as_str() {
                    DEFAULT => templates.default = Some(template),
                    _ => templates.named.push(NamedTemplate { name, template }),
                }
            }
        }
        Some(other) => return Err(file.wrong(KEY, "a text or a list of named texts", other)),
    }
    Ok(templates)
}

fn additional_templates(folder: &Path) -> Result<Vec<NamedTemplate>> {
    let listing = match std::fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ModelFileError::io(folder, error)),
    };
    let mut named = Vec::new();
    for entry in listing {
        let path = entry.map_err(|error| ModelFileError::io(folder, error))?.path();
        let name =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".jinja"));
        if let Some(name) = name
            && let Some(template) = read_text(&path)?
        {
            named.push(NamedTemplate { name: name.to_owned(), template });
        }
        if named.len() > MAX_TEMPLATES {
            let (what, value) = ("the count of templates".into(), named.len() as u64);
            return Err(ModelFileError::OverLimit {
                path: folder.into(),
                what,
                value,
                limit: MAX_TEMPLATES as u64,
            });
        }
    }
    named.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(named)
}

/// From tokenizer_config.json, then special_tokens_map.json. A token is its text, or an object with `content`.
pub(crate) fn special_tokens(folder: &Path, tokenizer_config: &JsonFile) -> Result<SpecialTokens> {
    let map = JsonFile::read_or_empty(&folder.join("special_tokens_map.json"))?;
    let text = |key: &str| -> Result<Option<String>> {
        for file in [tokenizer_config, &map] {
            let Some(value) = file.get(key) else { continue };
            let content = value.as_str().or_else(|| value.get("content").and_then(Value::as_str));
            return content
                .map(|text| Some(text.to_owned()))
                .ok_or_else(|| file.wrong(key, "a token's text", value));
        }
        Ok(None)
    };
    Ok(SpecialTokens {
        bos: text("bos_token")?,
        eos: text("eos_token")?,
        unk: text("unk_token")?,
        pad: text("pad_token")?,
        sep: text("sep_token")?,
        cls: text("cls_token")?,
        mask: text("mask_token")?,
    })
}
