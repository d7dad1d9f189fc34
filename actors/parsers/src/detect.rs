//! Which format a model writes, by what its chat template says.

use crate::format::Format;

/// What a template must contain to be of a format. The first row that fits decides: special tokens and rare tags come
/// ahead of tags that many share.
const ROWS: &[(Format, &[&str])] = &[
    (Format::Harmony, &["<|channel|>", "<|message|>", "functions."]),
    (Format::DeepSeekV32, &["DSML", "function_calls"]),
    (Format::DeepSeekV4, &["DSML", "tool_calls"]),
    (Format::DeepSeekV3, &["<｜tool▁calls▁begin｜>", "```json"]),
    (Format::DeepSeekV31, &["<｜tool▁calls▁begin｜>"]),
    (Format::KimiK2, &["<|tool_calls_section_begin|>"]),
    (Format::KimiK3, &["<|open|>", "<|sep|>"]),
    (Format::Gemma4, &["<|tool_call>", "<tool_call|>"]),
    (Format::FunctionGemma, &["<start_function_call>"]),
    (Format::MistralNamed, &["[TOOL_CALLS]", "[ARGS]"]),
    (Format::MistralList, &["[TOOL_CALLS]"]),
    (Format::Lfm2, &["<|tool_call_start|>"]),
    (Format::Lfm2, &["<|tool_list_start|>"]),
    (Format::Lfm2, &["List of tools: ["]),
    (Format::Pythonic, &["<|python_start|>"]),
    (Format::Pythonic, &["<|header_start|>", "ipython"]),
    (Format::Solar, &["<|tool_call:begin|>"]),
    (Format::Cohere, &["<|START_ACTION|>"]),
    (Format::CommandR, &["Action:", "tool_name"]),
    (Format::Granite3, &["<|tool_call|>"]),
    (Format::Apertus, &["<|tools_prefix|>"]),
    (Format::GigaChat, &["<|function_call|>"]),
    (Format::Firefunction, &["functools["]),
    (Format::Hunyuan, &["set HYTK = ':opensource'", "<tool_sep{}>"]),
    (Format::MiniMaxM2, &["<minimax:tool_call>"]),
    (Format::SeedOss, &["<seed:tool_call>"]),
    (Format::NemotronV2, &["<TOOLCALL>"]),
    (Format::MiniCpm, &["<function name=", "<param name="]),
    (Format::Glm, &["<arg_key>"]),
    (Format::Qwen3Coder, &["<function=", "<parameter="]),
    (Format::Functionary, &["<function=", "</function>"]),
    (Format::MiniMaxM1, &["<tool_calls>", "<end_of_sentence>"]),
    (Format::Apriel, &["<tool_calls>"]),
    (Format::Hermes, &["<tool_call>"]),
    (Format::Llama3, &["<|python_tag|>"]),
    (Format::Llama3, &["\"parameters\"", "ipython"]),
];

/// Marks of formats that we do not read, though they hold marks of ours.
const UNREADABLE: &[&str] = &["]<]minimax[>["];

impl Format {
    /// The format of calls that a chat template writes or asks for; none if it knows none, or one that we do not.
    pub fn detect(template: &str) -> Option<Self> {
        if UNREADABLE.iter().any(|text| template.contains(text)) {
            return None;
        }
        let row = ROWS.iter().find(|(_, all)| all.iter().all(|text| template.contains(text)));
        row.map(|(format, _)| *format)
    }
}
