//! The pass over a template's source before the engine parses it.
//!
//! `transformers` adds one tag to Jinja: `{% generation %}…{% endgeneration %}` marks what an assistant wrote, for
//! training. For inference it prints its content, in a scope of its own: exactly `{% with %}…{% endwith %}`.

use std::borrow::Cow;

use super::operands;

/// Replaces the `generation` tags by `with` and passes the operands of `+` through a filter (see [`operands`]), leaving
/// strings, comments, raw blocks and whitespace control alone.
pub(super) fn prepare(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(open) = rest.find('{') {
        let (text, tail) = rest.split_at(open);
        out.push_str(text);
        let (length, piece) = match tail.as_bytes().get(1) {
            Some(b'#') => plain(tail, comment_length(tail)),
            Some(b'{') => guarded(tail, tag_length(tail, "}}")),
            Some(b'%') => {
                let length = tag_length(tail, "%}");
                let tag = &tail[..length];
                match tag_name(tag) {
                    "raw" => plain(tail, raw_length(tail, length)),
                    "generation" => (length, Cow::Owned(tag.replacen("generation", "with", 1))),
                    "endgeneration" => (length, Cow::Owned(tag.replacen("endgeneration", "endwith", 1))),
                    _ => guarded(tail, length),
                }
            }
            _ => plain(tail, 1),
        };
        out.push_str(&piece);
        rest = &tail[length..];
    }
    out.push_str(rest);
    out
}

fn plain(tail: &str, length: usize) -> (usize, Cow<'_, str>) {
    (length, Cow::Borrowed(&tail[..length]))
}

fn guarded(tail: &str, length: usize) -> (usize, Cow<'_, str>) {
    (length, Cow::Owned(operands::guard(&tail[..length])))
}

/// The first word of a `{% … %}` tag.
fn tag_name(tag: &str) -> &str {
    let inner = tag.trim_start_matches("{%").trim_start_matches(['-', '+']).trim_start();
    let end = inner.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inner.len());
    &inner[..end]
}

fn comment_length(tail: &str) -> usize {
    tail.find("#}").map_or(tail.len(), |end| end + 2)
}

/// The length of a tag that starts `tail` and ends with `close` outside its string literals and brackets.
fn tag_length(tail: &str, close: &str) -> usize {
    let mut quote = None;
    let mut escaped = false;
    let mut open_brackets = 0;
    for (index, byte) in tail.bytes().enumerate().skip(2) {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if byte == b'\\' => escaped = true,
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None if byte == b'\'' || byte == b'"' => quote = Some(byte),
            None if open_brackets == 0 && tail.as_bytes()[index..].starts_with(close.as_bytes()) => {
                return index + close.len();
            }
            None => match byte {
                b'(' | b'[' | b'{' => open_brackets += 1,
                b')' | b']' | b'}' => open_brackets -= 1,
                _ => {}
            },
        }
    }
    tail.len()
}

/// The length of a raw block whose opening tag has `open` bytes, up to and with its `{% endraw %}`.
fn raw_length(tail: &str, open: usize) -> usize {
    let mut at = open;
    while let Some(next) = tail[at..].find("{%") {
        let start = at + next;
        let length = tag_length(&tail[start..], "%}");
        if tag_name(&tail[start..start + length]) == "endraw" {
            return start + length;
        }
        at = start + 2;
    }
    tail.len()
}

#[cfg(test)]
mod tests {
    use super::prepare;

    #[test]
    fn only_tags_are_replaced() {
        for (source, expected) in [
            ("{%- generation -%}a{%- endgeneration +%}", "{%- with -%}a{%- endwith +%}"),
            ("{% generation %}é{% endgeneration %}", "{% with %}é{% endwith %}"),
            ("{# {% generation %} #}x", "{# {% generation %} #}x"),
            ("{{ '{% generation %}' }}", "{{ '{% generation %}' }}"),
            ("{{ 'it\\'s }}{% generation %}' }}", "{{ 'it\\'s }}{% generation %}' }}"),
            ("{% set a = '%}{% generation %}' %}", "{% set a = '%}{% generation %}' %}"),
            ("{% raw %}{% generation %}{% endraw %}", "{% raw %}{% generation %}{% endraw %}"),
            (
                "{% if generation %}{{ generation }}{% endif %}",
                "{% if generation %}{{ generation }}{% endif %}",
            ),
            ("{{ {'a': {'b': 1}} + c }}+", "{{ ({'a': {'b': 1}})|operand_of_plus + (c)|operand_of_plus }}+"),
            (
                "{% raw %}{{ a + b }}{% endraw %}{# {{ a + b }} #}",
                "{% raw %}{{ a + b }}{% endraw %}{# {{ a + b }} #}",
            ),
            ("{{ é }}{% if é %}{% generation %}", "{{ é }}{% if é %}{% with %}"),
            ("a { b {", "a { b {"),
            ("{% generation", "{% with"),
        ] {
            assert_eq!(prepare(source), expected, "{source}");
        }
    }
}
