//! The tokenizer, special tokens and chat templates that a GGUF file carries in its metadata.

use super::metadata::Metadata;
use crate::error::{ModelFileError, Result};
use crate::prompt::{ChatTemplates, GenerationDefaults, NamedTemplate, SpecialTokens};
use crate::tokenizer::GgufTokenizer;

const TOKENS: &str = "tokenizer.ggml.tokens";
const TEMPLATE: &str = "tokenizer.chat_template";

/// Reads the tokenizer, every list of which has one entry a token. `None` where the file has none.
pub(super) fn tokenizer(metadata: &Metadata, file: &[u8]) -> Result<Option<GgufTokenizer>> {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let Some(tokens) = metadata.strings(TOKENS, file)? else { return Ok(None) };
    let model = metadata.string(&key("model"))?;
    let model =
        model.ok_or_else(|| ModelFileError::key(metadata.path(), key("model"), "missing"))?.to_owned();
    let id = |name: &str| token_id(metadata, &key(name), tokens.len());
    let token_types = metadata.i32s(&key("token_type"), file)?;
    let scores = metadata.f32s(&key("scores"), file)?;
    for (name, len) in
        [("token_type", token_types.as_ref().map(Vec::len)), ("scores", scores.as_ref().map(Vec::len))]
    {
        if let Some(len) = len.filter(|&len| len != tokens.len()) {
            let problem = format!("has {len} entries for {} tokens", tokens.len());
            return Err(ModelFileError::key(metadata.path(), key(name), problem));
        }
    }
    Ok(Some(GgufTokenizer {
        model,
        pre: metadata.string(&key("pre"))?.map(str::to_owned),
        token_types,
        merges: metadata.strings(&key("merges"), file)?.unwrap_or_default(),
        scores,
        bos_token_id: id("bos_token_id")?,
        eos_token_id: id("eos_token_id")?,
        eot_token_id: id("eot_token_id")?,
        eom_token_id: id("eom_token_id")?,
        unk_token_id: id("unknown_token_id")?,
        pad_token_id: id("padding_token_id")?,
        add_bos: metadata.bool(&key("add_bos_token"))?,
        add_eos: metadata.bool(&key("add_eos_token"))?,
        add_space_prefix: metadata.bool(&key("add_space_prefix"))?,
        tokens,
    }))
}

fn token_id(metadata: &Metadata, key: &str, num_tokens: usize) -> Result<Option<u32>> {
    let Some(id) = metadata.unsigned(key)? else { return Ok(None) };
    match u32::try_from(id) {
        Ok(id) if (id as usize) < num_tokens => Ok(Some(id)),
        _ => {
            let problem = format!("id {id} is outside the vocabulary of {num_tokens} tokens");
            Err(ModelFileError::key(metadata.path(), key, problem))
        }
    }
}

/// `tokenizer.chat_template`, and `tokenizer.chat_template.NAME` for each further one.
pub(super) fn chat_templates(metadata: &Metadata) -> Result<ChatTemplates> {
    let default = metadata.string(TEMPLATE)?.map(str::to_owned);
    let mut named = Vec::new();
    for key in metadata.keys() {
        if let Some(name) = key.strip_prefix(TEMPLATE).and_then(|rest| rest.strip_prefix('.'))
            && let Some(template) = metadata.string(key)?
        {
            named.push(NamedTemplate { name: name.to_owned(), template: template.to_owned() });
        }
    }
    Ok(ChatTemplates { default, named })
}

/// The texts of the tokenizer's special tokens.
pub(super) fn special_tokens(tokenizer: &GgufTokenizer) -> SpecialTokens {
    let text = |id: Option<u32>| id.and_then(|id| tokenizer.tokens.get(id as usize).cloned());
    SpecialTokens {
        bos: text(tokenizer.bos_token_id),
        eos: text(tokenizer.eos_token_id),
        unk: text(tokenizer.unk_token_id),
        pad: text(tokenizer.pad_token_id),
        ..SpecialTokens::default()
    }
}

/// A GGUF file carries no sampling defaults, only the ids that start and end a text.
pub(super) fn generation_defaults(tokenizer: &GgufTokenizer) -> GenerationDefaults {
    let mut eos_token_ids = Vec::new();
    for id in [tokenizer.eos_token_id, tokenizer.eot_token_id, tokenizer.eom_token_id].into_iter().flatten() {
        if !eos_token_ids.contains(&id) {
            eos_token_ids.push(id);
        }
    }
    GenerationDefaults {
        eos_token_ids,
        bos_token_id: tokenizer.bos_token_id,
        pad_token_id: tokenizer.pad_token_id,
        ..GenerationDefaults::default()
    }
}
