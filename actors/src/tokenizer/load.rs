//! A tokenizer out of what the model's files hold.

use tokenizers::Tokenizer as Library;
use troupe_model_files::{HuggingFaceTokenizer, SpecialTokens, TokenizerSource};

use super::core::{Frame, Tokenizer};
use super::{TokenizerError, gguf};

/// The first id that a tokenizer.json may not give. Tables go by id, gaps included, so this bounds their memory; the
/// largest vocabularies in use have a sixteenth of it.
const ID_BOUND: u32 = 1 << 22;

impl Tokenizer {
    /// Builds the tokenizer of a model.
    ///
    /// # Errors
    /// [`TokenizerError`] names the file or the part of the vocabulary that is at fault.
    pub fn load(source: &TokenizerSource, special: &SpecialTokens) -> Result<Self, TokenizerError> {
        let (mut library, frame) = match source {
            TokenizerSource::HuggingFace(files) => hugging_face(files, special)?,
            TokenizerSource::Gguf(lists) => gguf::build(lists)?,
        };
        // Some files carry settings for training batches; a server never cuts or fills a text.
        let disabled = library.with_truncation(None).map(|library| {
            library.with_padding(None);
        });
        disabled.map_err(|error| TokenizerError::Vocabulary { reason: error.to_string() })?;
        let names = match source {
            TokenizerSource::Gguf(lists) => Some(lists.tokens.as_slice()),
            TokenizerSource::HuggingFace(_) => None,
        };
        Ok(Self::from_parts(library, frame, names))
    }
}

fn hugging_face(
    files: &HuggingFaceTokenizer,
    special: &SpecialTokens,
) -> Result<(Library, Frame), TokenizerError> {
    let failed = |message: String| TokenizerError::File { path: files.tokenizer_json.clone(), message };
    let library = Library::from_file(&files.tokenizer_json).map_err(|error| failed(error.to_string()))?;
    refuse_large_ids(&library).map_err(failed)?;
    let mut frame = frame_of(&library).map_err(|error| failed(error.to_string()))?;
    // tokenizer_config.json has the last word over the post-processor of tokenizer.json.
    let id = |text: &Option<String>| text.as_deref().and_then(|text| library.token_to_id(text));
    set_edge(&mut frame.prefix, id(&special.bos), files.add_bos);
    set_edge(&mut frame.suffix, id(&special.eos), files.add_eos);
    Ok((library, frame))
}

/// Refuses a vocabulary whose highest id is not below [`ID_BOUND`].
fn refuse_large_ids(library: &Library) -> Result<(), String> {
    match library.get_vocab(true).into_iter().max_by_key(|(_, id)| *id) {
        Some((token, id)) if id >= ID_BOUND => {
            Err(format!("token {token:?} has id {id}, which is not below {ID_BOUND}"))
        }
        _ => Ok(()),
    }
}

/// What the post-processor puts around a text.
fn frame_of(library: &Library) -> tokenizers::Result<Frame> {
    const SAMPLE: &str = "a";
    let inner = library.encode_fast(SAMPLE, false)?.get_ids().to_vec();
    let outer = library.encode_fast(SAMPLE, true)?.get_ids().to_vec();
    let found = outer.windows(inner.len().max(1)).position(|window| window == inner);
    Ok(match found {
        Some(at) => Frame { prefix: outer[..at].to_vec(), suffix: outer[at + inner.len()..].to_vec() },
        None => Frame::default(),
    })
}

fn set_edge(edge: &mut Vec<u32>, token: Option<u32>, wanted: Option<bool>) {
    let (Some(token), Some(wanted)) = (token, wanted) else { return };
    match (wanted, edge.contains(&token)) {
        (true, false) => edge.push(token),
        (false, true) => edge.retain(|id| *id != token),
        _ => {}
    }
}
