//! The formats of tool calls that models write, one file each.

mod apertus;
mod apriel;
mod cohere;
mod command_r;
mod deepseek_dsml;
mod deepseek_v3;
mod deepseek_v31;
mod firefunction;
mod functionary;
mod gemma;
mod gigachat;
mod glm;
mod granite3;
mod harmony;
mod hermes;
mod hunyuan;
mod kimi_k2;
mod kimi_k3;
mod llama3;
mod minicpm;
mod minimax_m1;
mod minimax_m2;
mod mistral_list;
mod mistral_named;
mod nemotron_v2;
mod pythonic;
mod qwen3_coder;
mod seed_oss;
mod solar;

use crate::engine::HARMONY_TOKENS;
use crate::syntax::{CallBody, CallSyntax};

/// A way of writing tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `<tool_call>` and a JSON object: Hermes, Qwen 2.5 and 3, Granite 4, and many more.
    Hermes,
    /// A JSON object with nothing around it, or behind `<|python_tag|>`: Llama 3.1 to 3.3.
    Llama3,
    /// `[TOOL_CALLS]` and a JSON list: Mistral Nemo and its time.
    MistralList,
    /// `[TOOL_CALLS]name[CALL_ID]id[ARGS]{…}`, the id often left out: Mistral Small 3.2, Ministral, Devstral.
    MistralNamed,
    /// `<function=name>` with a `<parameter=key>` for each argument: Qwen 3 Coder, Qwen 3.5, Nemotron 3, Step 3.5.
    Qwen3Coder,
    /// As Qwen 3 Coder, but in `<seed:tool_call>` and with no line feeds around values: Seed OSS.
    SeedOss,
    /// Python calls in a list: Llama 4.
    Pythonic,
    /// Python calls in a list between tokens: LFM 2.
    Lfm2,
    /// A header with the type, the name, and the arguments in a fence: DeepSeek V3 and R1.
    DeepSeekV3,
    /// A header with the name, then the bare arguments: DeepSeek V3.1.
    DeepSeekV31,
    /// `<｜DSML｜function_calls>` with typed parameters: DeepSeek V3.2.
    DeepSeekV32,
    /// `<｜DSML｜tool_calls>` with typed parameters: DeepSeek V4.
    DeepSeekV4,
    /// Channels and recipients: gpt-oss.
    Harmony,
    /// Python calls in a fence: Gemma 3, whose template says nothing of tools, so that it is never detected.
    GemmaToolCode,
    /// `call:name{key:value}` with `<escape>` around strings: FunctionGemma.
    FunctionGemma,
    /// `call:name{key:value}` with `<|"|>` around strings: Gemma 4.
    Gemma4,
    /// A name, then `<arg_key>` and `<arg_value>` in turn: GLM 4.5 to 4.7, Ling, Laguna, Spark.
    Glm,
    /// As GLM, but with a suffix to each tag and a tag behind the name: Hunyuan 3.
    Hunyuan,
    /// `functions.name:0` as header and id: Kimi K2.
    KimiK2,
    /// Elements between `<|open|>` and `<|close|>` with typed arguments: Kimi K3.
    KimiK3,
    /// JSON objects in `<tool_calls>`, one a line: MiniMax M1.
    MiniMaxM1,
    /// `<invoke name="…">` with a `<parameter name="…">` for each argument: MiniMax M2.
    MiniMaxM2,
    /// `<function name="…">` with a `<param name="…">` for each argument: MiniCPM 5.
    MiniCpm,
    /// A JSON list in `<tool_calls>`: Apriel.
    Apriel,
    /// A JSON list in `<TOOLCALL>`: Nemotron Nano 2.
    NemotronV2,
    /// A JSON list between `<|START_ACTION|>` and `<|END_ACTION|>`: Command R7B and later.
    Cohere,
    /// `Action:` and a JSON list in a fence: Command R and R+.
    CommandR,
    /// `<|tool_call|>` and a JSON list: Granite 3.
    Granite3,
    /// `functools` and a JSON list: Firefunction 2.
    Firefunction,
    /// A JSON list of objects whose only key is the name of a tool: Apertus.
    Apertus,
    /// `<|function_call|>` and a JSON object: GigaChat 3.1.
    GigaChat,
    /// An id, a name, and the arguments, each behind its token: Solar Open.
    Solar,
    /// `<function=name>{…}</function>`: Functionary 3.1.
    Functionary,
}

impl Format {
    /// Every format.
    pub const ALL: &[Self] = &[
        Self::Hermes,
        Self::Llama3,
        Self::MistralList,
        Self::MistralNamed,
        Self::Qwen3Coder,
        Self::SeedOss,
        Self::Pythonic,
        Self::Lfm2,
        Self::DeepSeekV3,
        Self::DeepSeekV31,
        Self::DeepSeekV32,
        Self::DeepSeekV4,
        Self::Harmony,
        Self::GemmaToolCode,
        Self::FunctionGemma,
        Self::Gemma4,
        Self::Glm,
        Self::Hunyuan,
        Self::KimiK2,
        Self::KimiK3,
        Self::MiniMaxM1,
        Self::MiniMaxM2,
        Self::MiniCpm,
        Self::Apriel,
        Self::NemotronV2,
        Self::Cohere,
        Self::CommandR,
        Self::Granite3,
        Self::Firefunction,
        Self::Apertus,
        Self::GigaChat,
        Self::Solar,
        Self::Functionary,
    ];

    /// The name that configuration knows it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Llama3 => "llama3",
            Self::MistralList => "mistral_list",
            Self::MistralNamed => "mistral_named",
            Self::Qwen3Coder => "qwen3_coder",
            Self::SeedOss => "seed_oss",
            Self::Pythonic => "pythonic",
            Self::Lfm2 => "lfm2",
            Self::DeepSeekV3 => "deepseek_v3",
            Self::DeepSeekV31 => "deepseek_v31",
            Self::DeepSeekV32 => "deepseek_v32",
            Self::DeepSeekV4 => "deepseek_v4",
            Self::Harmony => "harmony",
            Self::GemmaToolCode => "gemma_tool_code",
            Self::FunctionGemma => "function_gemma",
            Self::Gemma4 => "gemma4",
            Self::Glm => "glm",
            Self::Hunyuan => "hunyuan",
            Self::KimiK2 => "kimi_k2",
            Self::KimiK3 => "kimi_k3",
            Self::MiniMaxM1 => "minimax_m1",
            Self::MiniMaxM2 => "minimax_m2",
            Self::MiniCpm => "minicpm",
            Self::Apriel => "apriel",
            Self::NemotronV2 => "nemotron_v2",
            Self::Cohere => "cohere",
            Self::CommandR => "command_r",
            Self::Granite3 => "granite3",
            Self::Firefunction => "firefunction",
            Self::Apertus => "apertus",
            Self::GigaChat => "gigachat",
            Self::Solar => "solar",
            Self::Functionary => "functionary",
        }
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }

    /// How calls are written, for a grammar that forces them.
    pub fn call_syntax(self) -> CallSyntax {
        match self {
            Self::Hermes => hermes::SYNTAX,
            Self::Llama3 => llama3::SYNTAX,
            Self::MistralList => mistral_list::SYNTAX,
            Self::MistralNamed => mistral_named::SYNTAX,
            Self::Qwen3Coder => qwen3_coder::SYNTAX,
            Self::SeedOss => seed_oss::SYNTAX,
            Self::Pythonic => pythonic::SYNTAX,
            Self::Lfm2 => pythonic::LFM2,
            Self::DeepSeekV3 => deepseek_v3::SYNTAX,
            Self::DeepSeekV31 => deepseek_v31::SYNTAX,
            Self::DeepSeekV32 => deepseek_dsml::SYNTAX,
            Self::DeepSeekV4 => deepseek_dsml::SYNTAX_V4,
            Self::Harmony => harmony::SYNTAX,
            Self::GemmaToolCode => gemma::TOOL_CODE,
            Self::FunctionGemma => gemma::FUNCTION_GEMMA,
            Self::Gemma4 => gemma::GEMMA4,
            Self::Glm => glm::SYNTAX,
            Self::Hunyuan => hunyuan::SYNTAX,
            Self::KimiK2 => kimi_k2::SYNTAX,
            Self::KimiK3 => kimi_k3::SYNTAX,
            Self::MiniMaxM1 => minimax_m1::SYNTAX,
            Self::MiniMaxM2 => minimax_m2::SYNTAX,
            Self::MiniCpm => minicpm::SYNTAX,
            Self::Apriel => apriel::SYNTAX,
            Self::NemotronV2 => nemotron_v2::SYNTAX,
            Self::Cohere => cohere::SYNTAX,
            Self::CommandR => command_r::SYNTAX,
            Self::Granite3 => granite3::SYNTAX,
            Self::Firefunction => firefunction::SYNTAX,
            Self::Apertus => apertus::SYNTAX,
            Self::GigaChat => gigachat::SYNTAX,
            Self::Solar => solar::SYNTAX,
            Self::Functionary => functionary::SYNTAX,
        }
    }

    /// How many letters and digits, and nothing else, the format's templates take as the id of a call; none if they take
    /// any id.
    pub fn id_length(self) -> Option<usize> {
        match self {
            Self::MistralList | Self::MistralNamed => Some(9),
            _ => None,
        }
    }

    /// Do answers consist of messages in channels, so that even plain text has syntax around it?
    pub fn has_channels(self) -> bool {
        self.call_syntax().body == CallBody::Channels
    }

    /// Control tokens that end an answer, beside those that the model's makers say: behind its calls such a model goes on
    /// into what a tool would say.
    pub fn ends(self) -> &'static [&'static str] {
        match self {
            Self::FunctionGemma => gemma::FUNCTION_GEMMA_ENDS,
            Self::Gemma4 => gemma::GEMMA4_ENDS,
            Self::Harmony => harmony::ENDS,
            _ => &[],
        }
    }

    /// Is this control token one of the format's markers, or a part of one? No other has a meaning to its parser.
    pub fn reads(self, control: &str) -> bool {
        match self.call_syntax().body {
            CallBody::Channels => HARMONY_TOKENS.contains(&control),
            _ => self.markers().iter().any(|marker| marker.contains(control)),
        }
    }

    /// Markers that stand around content and are none of it.
    pub(crate) fn silent(self) -> &'static [&'static str] {
        match self {
            Self::Cohere => cohere::SILENT,
            Self::KimiK3 => kimi_k3::SILENT,
            Self::Solar => solar::SILENT,
            _ => &[],
        }
    }

    /// All markers that the parser looks for.
    pub(crate) fn markers(self) -> Vec<&'static str> {
        let CallSyntax { section, call, body, .. } = self.call_syntax();
        let mut markers = vec![section.begin, section.end, call.begin, call.end];
        match body {
            CallBody::NamedJson(body) => {
                markers.extend(body.head.iter().map(|(_, terminator)| *terminator));
                markers.extend([body.arguments.begin, body.arguments.end]);
            }
            CallBody::Parameters(body) => {
                let wraps = [body.name, body.key, body.value];
                markers.extend(wraps.iter().flat_map(|wrap| [wrap.begin, wrap.end]));
                markers.extend(body.name_attributes);
                markers.push(body.end);
            }
            CallBody::Braced { quote } => markers.push(quote),
            CallBody::JsonObject(_) | CallBody::Pythonic(_) | CallBody::Channels => {}
        }
        markers.extend(self.silent());
        markers.into_iter().map(str::trim).filter(|marker| !marker.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests;
