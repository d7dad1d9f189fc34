//! Tokenizers made for a test: what files say about BOS, specials and alphabets, and files that lie.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use troupe_actors::guide::{Grammar, Guide, Vocabulary};
use troupe_actors::template::Rendered;
use troupe_actors::tokenizer::{AddSpecial, ParseSpecial, SpecialText, Tokenizer, TokenizerError};
use troupe_model_files::{GgufTokenizer, HuggingFaceTokenizer, SpecialTokens, TokenizerSource};

const BOS: u32 = 256;
const EOS: u32 = 257;
const THINK: u32 = 258;

/// All bytes in GPT-2's order, `<s>` and `</s>` as control tokens, `<think>` as a user's.
fn lists() -> GgufTokenizer {
    let printable = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let others: Vec<u32> = (0..256).filter(|byte| !printable(byte)).collect();
    let character = |byte: u32| {
        let code = others.iter().position(|other| *other == byte).map_or(byte, |at| 0x100 + at as u32);
        char::from_u32(code).expect("a character").to_string()
    };
    let mut tokens: Vec<String> = (0..256).map(character).collect();
    tokens.extend(["<s>", "</s>", "<think>"].map(str::to_owned));
    let mut token_types = vec![1; 256];
    token_types.extend([3, 3, 4]);
    GgufTokenizer {
        model: "gpt2".to_owned(),
        pre: Some("gpt-2".to_owned()),
        tokens,
        token_types: Some(token_types),
        bos_token_id: Some(BOS),
        eos_token_id: Some(EOS),
        ..GgufTokenizer::default()
    }
}

fn load(lists: GgufTokenizer) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::load(&TokenizerSource::Gguf(Box::new(lists)), &SpecialTokens::default())
}

fn encode(tokenizer: &Tokenizer, text: &str, add: AddSpecial) -> Vec<u32> {
    tokenizer.encode(text, add, ParseSpecial::AsTokens).expect("text encodes")
}

fn ranges(spans: &[(usize, usize)]) -> Vec<std::ops::Range<usize>> {
    spans.iter().map(|(start, end)| *start..*end).collect()
}

fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

#[test]
fn c173u_there_is_one_bos_and_never_two() {
    let tokenizer = load(GgufTokenizer { add_bos: Some(true), ..lists() }).expect("a sound vocabulary");
    let rendered = Rendered { text: "<s>hi".to_owned(), literal: Vec::new() };
    assert_eq!(tokenizer.encode_rendered(&rendered).expect("encodes"), [&[BOS][..], &bytes("hi")].concat());
    for prompt in ["hi", "<s>hi"] {
        assert_eq!(encode(&tokenizer, prompt, AddSpecial::AsConfigured), [&[BOS][..], &bytes("hi")].concat());
    }
    assert_eq!(encode(&tokenizer, "hi", AddSpecial::Never), bytes("hi"));
}

#[test]
fn c178u_an_empty_text_still_gets_its_special_tokens() {
    let tokenizer =
        load(GgufTokenizer { add_bos: Some(true), add_eos: Some(true), ..lists() }).expect("sound");
    assert_eq!(encode(&tokenizer, "", AddSpecial::AsConfigured), [BOS, EOS]);
    assert!(encode(&tokenizer, "", AddSpecial::Never).is_empty());
}

#[test]
fn c183u_special_and_user_defined_tokens_differ() {
    let tokenizer = load(lists()).expect("sound");
    let text = "a<s><think>b</s>";
    let as_tokens = tokenizer.encode(text, AddSpecial::Never, ParseSpecial::AsTokens).expect("encodes");
    assert_eq!(as_tokens, [&bytes("a")[..], &[BOS, THINK], &bytes("b"), &[EOS]].concat());
    let as_text = tokenizer.encode(text, AddSpecial::Never, ParseSpecial::AsText).expect("encodes");
    assert_eq!(as_text, [&bytes("a<s>")[..], &[THINK], &bytes("b</s>")].concat());
    assert_eq!(tokenizer.decode(&as_tokens, SpecialText::Skip), "a<think>b");
    assert_eq!(tokenizer.decode(&as_tokens, SpecialText::Show), text);
    assert_eq!(tokenizer.token_bytes(THINK), Some(&b"<think>"[..]));
}

#[test]
fn only_spellings_outside_literal_spans_are_tokens() {
    let tokenizer = load(lists()).expect("sound");
    let text = "<s>x<s>y</s>".to_owned();
    let ids = |literal: &[(usize, usize)]| {
        tokenizer
            .encode_rendered(&Rendered { text: text.clone(), literal: ranges(literal) })
            .expect("encodes")
    };
    assert_eq!(ids(&[(4, 7)]), [&[BOS][..], &bytes("x<s>y"), &[EOS]].concat());
    assert_eq!(ids(&[(0, 1), (11, 12)]), [&bytes("<s>x")[..], &[BOS], &bytes("y</s>")].concat());
    assert_eq!(ids(&[(3, 4)]), [&[BOS][..], &bytes("x"), &[BOS], &bytes("y"), &[EOS]].concat());
}

#[test]
fn merges_must_be_made_of_tokens() {
    for (merge, named) in [("a", "\"a\""), ("a zz", "zz"), ("a b", "\"ab\"")] {
        let error = load(GgufTokenizer { merges: vec![merge.to_owned()], ..lists() }).expect_err("a lie");
        assert!(
            matches!(error, TokenizerError::Vocabulary { .. }) && error.to_string().contains(named),
            "{error}"
        );
    }
}

#[test]
fn unknown_algorithms_are_refused_by_name() {
    let model =
        load(GgufTokenizer { model: "rwkv".to_owned(), ..lists() }).expect_err("not supported").to_string();
    assert!(model.contains("rwkv") && model.contains("gpt2"), "{model}");
    let pre =
        load(GgufTokenizer { pre: Some("viking".to_owned()), ..lists() }).expect_err("unknown").to_string();
    assert!(pre.contains("viking") && pre.contains("llama-bpe"), "{pre}");
}

/// SentencePiece's: its special tokens, all bytes, and six pieces from 259 on.
fn pieces() -> Tokenizer {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend(["▁", "h", "i", "▁h", "▁hi", "hi"].map(str::to_owned));
    let mut token_types = vec![2, 3, 3];
    token_types.extend([6; 256]);
    token_types.extend([1; 6]);
    let scores = (0..tokens.len()).map(|id| -(id as f32)).collect();
    load(GgufTokenizer {
        model: "llama".to_owned(),
        pre: None,
        tokens,
        token_types: Some(token_types),
        scores: Some(scores),
        bos_token_id: Some(1),
        eos_token_id: Some(2),
        unk_token_id: Some(0),
        ..lists()
    })
    .expect("sound")
}

#[test]
fn sentencepiece_lists_make_a_tokenizer_with_byte_fallback() {
    let tokenizer = pieces();
    let ids = encode(&tokenizer, "hi é", AddSpecial::AsConfigured);
    let fallback = |byte: u32| 3 + byte;
    assert_eq!(ids, [1, 263, 259, fallback(0xc3), fallback(0xa9)]);
    assert_eq!(tokenizer.decode(&ids, SpecialText::Skip), "hi é");
    assert_eq!(tokenizer.token_bytes(263), Some(&b" hi"[..]));
    assert_eq!(tokenizer.token_bytes(fallback(0xc3)), Some(&b"\xc3"[..]));
}

/// Writes a tokenizer.json with a Metaspace pre-tokenizer of that scheme and loads it.
fn metaspace(scheme: &str, name: &str) -> Tokenizer {
    let vocab: Vec<Json> =
        ["<unk>", "▁", "a", "b", "▁a", "▁b", "<", "s", ">", "<s>"].map(|token| json!(token)).to_vec();
    let vocab: serde_json::Map<String, Json> = vocab
        .iter()
        .enumerate()
        .map(|(id, token)| (token.as_str().expect("text").to_owned(), json!(id)))
        .collect();
    let space = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
    let special = json!({"id": 9, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true});
    let file = json!({
        "version": "1.0", "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": null, "added_tokens": [special], "normalizer": null, "pre_tokenizer": space,
        "post_processor": null, "decoder": space,
        "model": {"type": "BPE", "unk_token": "<unk>", "vocab": vocab, "merges": ["▁ a", "▁ b"]},
    });
    let path: PathBuf =
        std::env::temp_dir().join(format!("troupe-tokenizer-{}-{name}.json", std::process::id()));
    std::fs::write(&path, file.to_string()).expect("a writable folder");
    let source = HuggingFaceTokenizer { tokenizer_json: path.clone(), add_bos: Some(true), add_eos: None };
    let special = SpecialTokens { bos: Some("<s>".to_owned()), ..SpecialTokens::default() };
    let tokenizer = Tokenizer::load(&TokenizerSource::HuggingFace(source), &special).expect("a sound file");
    std::fs::remove_file(&path).expect("the file is there");
    tokenizer
}

#[test]
fn c183u_a_first_word_is_marked_once_however_the_text_is_cut() {
    let (first, always) = (metaspace("first", "first"), metaspace("always", "always"));
    let text = "a<s>b a<s>b".to_owned();
    let rendered = |literal| Rendered { text: text.clone(), literal };
    let spelled = |tokenizer: &Tokenizer, literal: &[(usize, usize)]| {
        let ids = tokenizer.encode_rendered(&rendered(ranges(literal))).expect("encodes");
        ids.iter().map(|id| tokenizer.token_text(*id).expect("a token")).collect::<Vec<_>>()
    };
    assert_eq!(spelled(&first, &[]), [" a", "<s>", "b", " a", "<s>", "b"]);
    assert_eq!(spelled(&first, &[(8, 9)]), [" a", "<s>", "b", " a", "<", "s", ">", "b"]);
    assert_eq!(spelled(&always, &[]), [" a", "<s>", " b", " a", "<s>", " b"]);
    assert_eq!(spelled(&always, &[(8, 9)]), [" a", "<s>", " b", " a", "<", "s", ">", "b"]);
}

/// The tokens that may begin `text` where nothing else may be said, and those that may follow `said`.
fn masks(tokenizer: Tokenizer, text: &str, said: &[u32]) -> [Vec<u32>; 2] {
    let size = u32::try_from(tokenizer.vocab_size()).expect("a small vocabulary");
    let vocabulary = Arc::new(Vocabulary::new(Arc::new(tokenizer), size));
    let grammar = Grammar::choice(&[text.to_owned()]).expect("a choice");
    let mut guide = Guide::new(&vocabulary, &grammar, &[]).expect("it compiles");
    let allowed = |guide: &mut Guide| {
        let mask = guide.mask().expect("a mask");
        (0..size).filter(|&token| mask.allows(token)).collect()
    };
    let first = allowed(&mut guide);
    for &token in said {
        guide.advance(token).expect("it may be said");
    }
    [first, allowed(&mut guide)]
}

#[test]
fn c183u_a_mask_goes_by_the_bytes_of_tokens_and_a_special_token_is_no_text() {
    // "▁" and "▁a"; then "<", and not "<s>".
    for scheme in ["first", "always", "never"] {
        let allowed = masks(metaspace(scheme, &format!("masks-{scheme}")), " a<s>b", &[4]);
        assert_eq!(allowed, [vec![1, 4], vec![6]], "{scheme}");
    }
    // The first byte of "é"; then "<", and not "</s>".
    let bytes = load(lists()).expect("sound");
    assert_eq!(masks(bytes, "é</s>", &[0xc3, 0xa9]), [vec![0xc3], vec![u32::from(b'<')]]);
    // The byte of a space, "▁" and "▁h", but not "▁hi"; then the first byte of "é".
    let fallback = |byte: u8| 3 + u32::from(byte);
    let allowed = masks(pieces(), " hé", &[262]);
    assert_eq!(allowed, [vec![fallback(b' '), 259, 262], vec![fallback(0xc3)]]);
}

#[test]
fn a_folders_configuration_has_the_last_word_over_bos_and_nothing_is_cut() {
    let tokenizer = metaspace("first", "configuration");
    let ids = encode(&tokenizer, "a a a a a a", AddSpecial::AsConfigured);
    assert_eq!((ids[0], ids.len()), (9, 7));
    assert_eq!(tokenizer.decode(&ids, SpecialText::Skip), "a a a a a a");
}

#[test]
fn an_id_that_would_make_a_table_of_gaps_is_refused_with_its_token() {
    let file = |id: u32| {
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "zz": id}},
        })
    };
    let path = std::env::temp_dir().join(format!("troupe-tokenizer-{}-ids.json", std::process::id()));
    for (id, is_refused) in
        [((1 << 22) - 1, false), (1 << 22, true), (100_000_000, true), (1 << 31, true), (u32::MAX, true)]
    {
        std::fs::write(&path, file(id).to_string()).expect("a writable folder");
        let files = HuggingFaceTokenizer { tokenizer_json: path.clone(), add_bos: None, add_eos: None };
        let loaded = Tokenizer::load(&TokenizerSource::HuggingFace(files), &SpecialTokens::default());
        match loaded {
            Ok(tokenizer) => assert!(!is_refused && tokenizer.vocab_size() == id as usize + 1, "{id}"),
            Err(error) => {
                let named = format!("token \"zz\" has id {id}, which is not below 4194304");
                assert!(is_refused && error.to_string().ends_with(&named), "{error}");
                assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
            }
        }
    }
    std::fs::remove_file(&path).expect("the file is there");
}

#[test]
fn a_file_that_is_no_tokenizer_is_named() {
    let path = std::env::temp_dir().join(format!("troupe-tokenizer-{}-none.json", std::process::id()));
    let source = HuggingFaceTokenizer { tokenizer_json: path.clone(), add_bos: None, add_eos: None };
    let error = Tokenizer::load(&TokenizerSource::HuggingFace(source), &SpecialTokens::default())
        .expect_err("no file");
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
}
