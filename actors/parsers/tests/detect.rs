//! Which format and which tags each of the fetched chat templates is known to have.

use std::collections::BTreeMap;
use std::path::Path;

use troupe_parsers::{Format, Reasoning};

/// Template, format of calls, what begins its reasoning.
const EXPECTED: &[(&str, Option<Format>, Option<&str>)] = &[
    ("Apertus-8B-Instruct", Some(Format::Apertus), Some("<|inner_prefix|>")),
    ("Apriel-1.6-15b-Thinker-fixed", Some(Format::Apriel), Some("Here are my reasoning steps:")),
    ("Bielik-11B-v3.0-Instruct", Some(Format::Hermes), Some("<think>")),
    ("ByteDance-Seed-OSS", Some(Format::SeedOss), Some("<seed:think>")),
    ("Cohere2MoE", Some(Format::Cohere), Some("<|START_THINKING|>")),
    ("CohereForAI-c4ai-command-r-plus-tool_use", Some(Format::CommandR), None),
    ("CohereForAI-c4ai-command-r7b-12-2024-tool_use", Some(Format::Cohere), Some("<|START_THINKING|>")),
    ("GLM-4.6", Some(Format::Glm), Some("<think>")),
    ("GLM-4.7-Flash", Some(Format::Glm), Some("<think>")),
    ("GigaChat3-10B-A1.8B", None, None),
    ("GigaChat3.1-10B-A1.8B", Some(Format::GigaChat), None),
    ("HuggingFaceTB-SmolLM3-3B", None, Some("<think>")),
    ("Kimi-K2-Instruct", Some(Format::KimiK2), None),
    ("Kimi-K2-Thinking", Some(Format::KimiK2), Some("<think>")),
    ("Kimi-K3", Some(Format::KimiK3), Some("<|open|>think<|sep|>")),
    ("LFM2-8B-A1B", Some(Format::Lfm2), None),
    ("LFM2.5-8B-A1B", Some(Format::Lfm2), Some("<think>")),
    ("LFM2.5-Instruct", Some(Format::Lfm2), Some("<think>")),
    ("MiMo-VL", Some(Format::Hermes), None),
    ("MiniMax-M1", Some(Format::MiniMaxM1), None),
    ("MiniMax-M2", Some(Format::MiniMaxM2), Some("<think>")),
    ("MiniMax-M3", None, Some("<mm:think>")),
    ("Mistral-Small-3.2-24B-Instruct-2506", Some(Format::MistralNamed), None),
    ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", Some(Format::Qwen3Coder), Some("<think>")),
    ("NVIDIA-Nemotron-Nano-v2", Some(Format::NemotronV2), Some("<think>")),
    ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", Some(Format::Hermes), None),
    ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", Some(Format::Hermes), None),
    ("Qwen-QwQ-32B", Some(Format::Hermes), Some("<think>")),
    ("Qwen-Qwen2.5-7B-Instruct", Some(Format::Hermes), None),
    ("Qwen-Qwen3-0.6B", Some(Format::Hermes), Some("<think>")),
    ("Qwen3-Coder", Some(Format::Qwen3Coder), None),
    ("Qwen3.5-4B", Some(Format::Qwen3Coder), Some("<think>")),
    ("Reka-Edge", Some(Format::Hermes), Some("<think>")),
    ("Spark2.5", Some(Format::Glm), Some("<think>")),
    ("StepFun3.5-Flash", Some(Format::Qwen3Coder), Some("<think>")),
    ("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", Some(Format::DeepSeekV3), Some("<think>")),
    ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", Some(Format::DeepSeekV3), Some("<think>")),
    ("deepseek-ai-DeepSeek-V3.1", Some(Format::DeepSeekV31), Some("<think>")),
    ("deepseek-ai-DeepSeek-V3.2", Some(Format::DeepSeekV32), Some("<think>")),
    ("deepseek-ai-DeepSeek-V4", Some(Format::DeepSeekV4), Some("<think>")),
    ("deepseek-ai-DeepSeek-V4-Flash-0731", Some(Format::DeepSeekV4), Some("<think>")),
    ("fireworks-ai-llama-3-firefunction-v2", Some(Format::Firefunction), None),
    ("google-gemma-2-2b-it", None, None),
    ("google-gemma-4-31B-it", Some(Format::Gemma4), Some("<|channel>thought")),
    ("google-gemma-4-31B-it-interleaved", Some(Format::Gemma4), Some("<|channel>thought")),
    ("ibm-granite-granite-3.3-2B-Instruct", Some(Format::Granite3), Some("<think>")),
    ("ibm-granite-granite-4.0", Some(Format::Hermes), None),
    ("ibm-granite-granite-4.1", Some(Format::Hermes), None),
    ("inclusionai-ling-3.0-flash", Some(Format::Glm), Some("<think>")),
    ("llama-cpp-deepseek-r1", Some(Format::DeepSeekV3), Some("<think>")),
    ("llama-cpp-rwkv-world", None, Some("<think>")),
    ("meetkai-functionary-medium-v3.1", Some(Format::Functionary), None),
    ("meetkai-functionary-medium-v3.2", None, None),
    ("meta-llama-Llama-3.1-8B-Instruct", Some(Format::Llama3), None),
    ("meta-llama-Llama-3.2-3B-Instruct", Some(Format::Llama3), None),
    ("meta-llama-Llama-3.3-70B-Instruct", Some(Format::Llama3), None),
    ("microsoft-Phi-3.5-mini-instruct", None, None),
    ("mistralai-Ministral-3-14B-Reasoning-2512", Some(Format::MistralNamed), Some("[THINK]")),
    ("mistralai-Mistral-Nemo-Instruct-2407", Some(Format::MistralList), None),
    ("moonshotai-Kimi-K2", Some(Format::KimiK2), None),
    ("muse-glimmer", None, None),
    ("openai-gpt-oss-120b", Some(Format::Harmony), None),
    ("openbmb-MiniCPM5-1B", Some(Format::MiniCpm), Some("<think>")),
    ("poolside-Laguna-S-2.1", Some(Format::Glm), Some("<think>")),
    ("poolside-Laguna-XS-2.1", Some(Format::Glm), Some("<think>")),
    ("poolside-Laguna-XS.2", Some(Format::Glm), Some("<think>")),
    ("tencent-Hy3", Some(Format::Hunyuan), Some("<think:opensource>")),
    ("unsloth-Apriel-1.5", Some(Format::Apriel), Some("Here are my reasoning steps:")),
    ("unsloth-mistral-Devstral-Small-2507", Some(Format::MistralNamed), None),
    ("upstage-Solar-Open-100B", Some(Format::Solar), Some("<|think|>")),
];

#[test]
fn templates_are_recognised() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/test/templates");
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}; run `make test-deps` first", folder.display()));
    let mut found = BTreeMap::new();
    for path in entries.map(|entry| entry.expect("a readable folder").path()) {
        if path.extension().is_some_and(|extension| extension == "jinja") {
            let name = path.file_stem().expect("a file name").to_string_lossy().into_owned();
            let source = std::fs::read_to_string(&path).expect("a readable template");
            found.insert(name, (Format::detect(&source), Reasoning::detect(&source).map(|tags| tags.begin)));
        }
    }
    let expected: BTreeMap<String, _> =
        EXPECTED.iter().map(|(name, format, tag)| ((*name).to_owned(), (*format, *tag))).collect();
    let differ: Vec<String> = found
        .iter()
        .filter(|(name, what)| expected.get(*name) != Some(what))
        .map(|(name, (format, tag))| format!("    (\"{name}\", {format:?}, {tag:?}),"))
        .collect();
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
    assert_eq!(found.len(), expected.len(), "a template was not fetched");
}
