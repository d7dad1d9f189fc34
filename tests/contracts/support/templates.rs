//! The default model under another chat template: the same weights and tokens, told of tools in another format.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Server, model};

/// What stands ahead of the template in the file: its key, and that a text follows.
const KEY: &[u8] = b"tokenizer.chat_template\x08\0\0\0";
/// Offsets in the file are multiples of this, so its parts may move by as much.
const ALIGNMENT: usize = 32;

/// Conversations as the default model knows them, with an introduction that lists the tools. `CALL` stands for how
/// `call` is written, `INTRODUCTION` for how the model is told to.
const TEMPLATE: &str = "{%- if tools %}{{- '<|im_start|>system\\nYou may call tools:\\n' }}\
    {%- for tool in tools %}{{- tool.function | tojson }}{{- '\\n' }}{%- endfor %}{{- 'INTRODUCTION<|im_end|>\\n' }}{%- endif %}\
    {%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}\
    {%- for call in message.tool_calls or [] %}CALL{%- endfor %}{{- '<|im_end|>\\n' }}{%- endfor %}\
    {%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

const HERMES: (&str, &str) = (
    "Write each call as <tool_call>\\n{\"name\": NAME, \"arguments\": ARGUMENTS}\\n</tool_call>.",
    "{{- '<tool_call>\\n{\"name\": ' + (call.function.name | tojson) + ', \"arguments\": ' \
     + (call.function.arguments | tojson) + '}\\n</tool_call>' }}",
);
const LLAMA3: (&str, &str) = (
    "Answer with {\"name\": NAME, \"parameters\": ARGUMENTS}, or behind <|python_tag|>.",
    "{{- '{\"name\": ' + (call.function.name | tojson) + ', \"parameters\": ' \
     + (call.function.arguments | tojson) + '}' }}",
);
const MISTRAL: (&str, &str) = (
    "Write calls as [TOOL_CALLS][{\"name\": NAME, \"arguments\": ARGUMENTS}].",
    "{{- '[TOOL_CALLS][{\"name\": ' + (call.function.name | tojson) + ', \"arguments\": ' \
     + (call.function.arguments | tojson) + '}]' }}",
);
const QWEN3_CODER: (&str, &str) = (
    "Write each call as <tool_call>\\n<function=NAME>\\n<parameter=KEY>\\nVALUE\\n</parameter>\\n</function>\\n</tool_call>.",
    "{{- '<tool_call>\\n<function=' + call.function.name + '>\\n' }}\
     {%- for key, value in call.function.arguments | items %}\
     {{- '<parameter=' + key + '>\\n' + (value | string) + '\\n</parameter>\\n' }}{%- endfor %}\
     {{- '</function>\\n</tool_call>' }}",
);

/// A format by its name, with a template that shows it.
pub const FORMATS: [&str; 4] = ["hermes", "llama3", "mistral_list", "qwen3_coder"];

/// The template of a format. One that reasons has the prompt open a section of it.
fn template(format: &str, opens_reasoning: bool) -> String {
    let (introduction, call) = match format {
        "hermes" => HERMES,
        "llama3" => LLAMA3,
        "mistral_list" => MISTRAL,
        "qwen3_coder" => QWEN3_CODER,
        other => panic!("there is no template of {other}"),
    };
    // What is put in holds the other placeholder's letters.
    let plain = TEMPLATE.replace("CALL", call).replace("INTRODUCTION", introduction);
    match opens_reasoning {
        true => plain.replace("assistant\\n' }}{%- endif %}", "assistant\\n<think>\\n' }}{%- endif %}"),
        false => plain,
    }
}

/// A server of the default model under a template of its own.
pub struct ToolServer {
    server: Server,
    _folder: TempDir,
}

impl ToolServer {
    /// One that is told to write calls in this format.
    pub fn start(format: &str) -> Self {
        Self::with(&template(format, false), format)
    }

    /// The same, but its prompts open a section of reasoning.
    pub fn reasoning(format: &str) -> Self {
        Self::with(&template(format, true), format)
    }

    fn with(template: &str, format: &str) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = write(folder.path(), template);
        let server = Server::start_model(&path, &[]);
        let ready = server.before_ready.last().unwrap();
        assert!(ready.contains(&format!("tool_format={format:?}")), "{ready}");
        Self { server, _folder: folder }
    }
}

impl Deref for ToolServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// Writes the default model with another template.
fn write(folder: &Path, template: &str) -> PathBuf {
    let file = fs::read(model()).unwrap();
    let at = file.windows(KEY.len()).position(|bytes| bytes == KEY).unwrap() + KEY.len();
    let length = u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let text = at + 8;
    // A comment makes up the difference to what the other parts may move by.
    let comment = "{#  #}".len();
    let padding = (length + ALIGNMENT * 1024 - template.len() - comment) % ALIGNMENT;
    let template = format!("{{# {} #}}{template}", " ".repeat(padding));
    let head = [&file[..at], &(template.len() as u64).to_le_bytes()].concat();
    let path = folder.join("tools.gguf");
    fs::write(&path, [&head, template.as_bytes(), &file[text + length..]].concat()).unwrap();
    path
}
