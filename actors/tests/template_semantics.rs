//! What a template may do, one row for each thing: the expected text is stated, and `transformers` must agree.

mod support;

use serde_json::{Map, Value as Json, json};
use support::Reference;
use troupe_actors::template::{ChatTemplate, Ending, RenderInput, TemplateError, TemplateTokens};

/// Case, template, text.
const TEXTS: &[(&str, &str, &str)] = &[
    (
        "c155u strip",
        "[{{ ' a b '.strip() }}][{{ '\n\na'.lstrip('\n') }}][{{ 'a..'.rstrip('.') }}]",
        "[a b][a][a]",
    ),
    (
        "c155u split",
        "{{ 'x</think>y'.split('</think>')[-1] }} {{ 'a b  c'.split() }} {{ 'a,b,c'.rsplit(',', 1) }}",
        "y ['a', 'b', 'c'] ['a,b', 'c']",
    ),
    (
        "c155u lines",
        "{{ 'a\r\nb\nc'.splitlines() }} {{ 'a\nb'.splitlines(true) }}",
        "['a', 'b', 'c'] ['a\\n', 'b']",
    ),
    (
        "c155u replace",
        "{{ 'aXbX'.replace('X', 'y', 1) }} {{ 'abc'.find('c') }} {{ 'abc'.startswith(('x', 'a')) }}",
        "aybX 2 True",
    ),
    ("c155u items", "{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}={{ v }};{% endfor %}", "b=1;a=2;"),
    (
        "c155u more methods",
        "{{ 'a-b'.partition('-') }} {{ 'xay'.removeprefix('x').removesuffix('y') }} {{ 'ab'.title() }} {{ '7'.zfill(3) }} {{ 'a'.center(4, '*') }}",
        "('a', '-', 'b') a Ab 007 *a**",
    ),
    (
        "c156u loop controls",
        "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
        "013",
    ),
    (
        "c158u negative steps",
        "{{ 'abc'[::-1] }} {{ [1, 2, 3][::-1] }} {{ range(3, 0, -1) | list }} {{ 'abcd'[1:-1] }}",
        "cba [3, 2, 1] [3, 2, 1] bc",
    ),
    ("c158u undefined in join", "{{ [missing, 'a'] | join('-') }}", "-a"),
    ("c160u chained comparisons", "{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 == 1.0 }}", "True False True"),
    ("c160u numbers as keys", "{{ [{'bar': 'x'}].0.bar }}", "x"),
    (
        "c161u constants",
        "{{ none }} {{ true }} {{ false }} {{ missing }}|{{ 1.0 }} {{ 1e16 }} {{ 7 // 2 }} {{ 7 / 2 }} {{ -7 % 3 }}",
        "None True False |1.0 1e+16 3 3.5 2",
    ),
    (
        "c163u a key named as a method",
        "{% set d = {'items': 1, 'get': 2, 'keys': 3} %}{{ d.items() | list }} {{ d.get('items') }} {{ d.keys() | list }}",
        "[('items', 1), ('get', 2), ('keys', 3)] 1 ['items', 'get', 'keys']",
    ),
    (
        "c165u conditional arguments",
        "{% macro f(a, b='d') %}[{{ a }}{{ b }}]{% endmacro %}{{ f(a='x' if false else 'z') }}{{ f('p', b=none) }}",
        "[zd][pNone]",
    ),
    (
        "c166u containers print as in Python",
        "{{ [1, 'a', none, true, 1.5, {'k': \"it's\"}] }} {{ ('a',) }} {{ 'a\\n' ~ [\"b\\t\"] }}",
        "[1, 'a', None, True, 1.5, {'k': \"it's\"}] ('a',) a\n['b\\t']",
    ),
    (
        "c166u tojson",
        "{{ {'b': 1, 'a': ['<é>', none, true, 1.0, 1e-7]} | tojson }}",
        "{\"b\": 1, \"a\": [\"<é>\", null, true, 1.0, 1e-07]}",
    ),
    (
        "c166u tojson indent",
        "{{ {'b': [1, 2], 'a': {}, 'c': []} | tojson(indent=2) }}",
        "{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": {},\n  \"c\": []\n}",
    ),
    (
        "c166u tojson options",
        "{{ {'b': '\u{e9}\u{1f642}', 'a': 1} | tojson(ensure_ascii=true, sort_keys=true, separators=(',', ':')) }}",
        "{\"a\":1,\"b\":\"\\u00e9\\ud83d\\ude42\"}",
    ),
    (
        "c166u tojson strings",
        "{{ '\"\\\\/\u{8}\u{c}\u{1}\u{7f}\u{2028}' | tojson }}",
        "\"\\\"\\\\/\\b\\f\\u0001\u{7f}\u{2028}\"",
    ),
    (
        "c170u clock",
        "{{ strftime_now('%d %b %Y') }} {{ strftime_now('%A, %B %-d, %H:%M:%S') }} {{ strftime_now('%Y-%m-%d') }}",
        "04 Jul 2025 Friday, July 4, 13:05:09 2025-07-04",
    ),
    (
        "c170u namespace",
        "{% set ns = namespace(a=1) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}",
        "4",
    ),
    (
        "c170u loop neighbours",
        "{% for c in ['a', 'b', 'c'] %}{{ loop.previtem }}{{ c }}{{ loop.nextitem }}{{ loop.index0 }}{{ ',' if not loop.last }}{% endfor %}",
        "ab0,abc1,bc2",
    ),
    (
        "c170u the last turn of a loop over what methods and filters return",
        "{% macro f(x) %}{% for i in x %}{{ i }}{{ ',' if not loop.last }}{% endfor %};{% endmacro %}\
         {{ f({'a': 1, 'b': 2}.items()) }}{{ f({'a': 1, 'b': 2} | items) }}{{ f({'a': 1, 'b': 2}) }}\
         {{ f({'a': 1, 'b': 2} | dictsort) }}{{ f([1, 2, 3] | select('odd')) }}{{ f([1, 2] | reverse) }}\
         {{ f([1] + [2]) }}{{ f('a b'.split()) }}{{ f([1, 2] | map('string')) }}{{ f({'a': 1, 'b': 2}.keys()) }}\
         {{ f(range(2)) }}{{ f([{'r': 1}, {'r': 2}] | selectattr('r')) }}{{ f([1, 1, 2] | unique) }}",
        "('a', 1),('b', 2);('a', 1),('b', 2);a,b;('a', 1),('b', 2);1,3;2,1;1,2;a,b;1,2;a,b;0,1;{'r': 1},{'r': 2};1,2;",
    ),
    ("c170u trim and lstrip blocks", "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc"),
    ("c170u plus keeps white space", "a\n  {%+ if true %}b{% endif +%}\nc", "a\n  b\nc"),
    (
        "c170u generation",
        "x\n  {% generation %}\n{% set a = 1 %}y{% endgeneration %}\n{{ a }}z{%- generation -%} w {%- endgeneration -%} v",
        "x\nyzwv",
    ),
    (
        "scopes",
        "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}{% if true %}{% set x = 3 %}{% endif %}{{ x }}",
        "13",
    ),
    (
        "tests",
        "{{ 'a' is sequence }} {{ {} is sequence }} {{ 'a' is iterable }} {{ none is iterable }} {{ true is integer }} {{ true is number }} {{ missing is none }} {{ ([1] + [2]) is sequence }}",
        "True True True False False True False True",
    ),
    (
        "filters",
        "{{ ' a ' | trim }}|{{ {'b': 1, 'a': 2} | dictsort }} {{ [3, 1] | sort }} {{ [{'r': 'u'}, {'r': 's'}] | selectattr('r', 'equalto', 'u') | list }} {{ missing | default('d') }} {{ '' | default('e', true) }} {{ 'a\nb' | indent(2) }}",
        "a|[('a', 2), ('b', 1)] [1, 3] [{'r': 'u'}] d e a\n  b",
    ),
    (
        "in",
        "{{ 'b' in 'abc' }} {{ 'k' in {'k': 1} }} {{ 'x' not in [1] }} {{ 'a' in missing }}",
        "True True True False",
    ),
    (
        "concatenation",
        "{{ 'a' ~ 1 ~ none ~ 1.0 }} {{ 'a' * 3 }} {{ '%s-%d' | format('x', 3) }} {{ '{} {b}'.format(1, b=2) }}",
        "a1None1.0 aaa x-3 1 2",
    ),
];

/// Case, template, message of the error.
const RAISED: &[(&str, &str, &str)] = &[
    ("c170u raise_exception", "{{ raise_exception('Roles must alternate: é') }}", "Roles must alternate: é"),
    (
        "raised inside a macro and a loop",
        "{% macro f() %}{{ raise_exception('deep ' ~ 1) }}{% endmacro %}{% for i in [1] %}{{ f() }}{% endfor %}",
        "deep 1",
    ),
];

/// Templates that fail on their own, in both engines.
const FAILING: &[(&str, &str)] = &[
    ("attribute of undefined", "{{ missing.a.b }}"),
    ("text plus number", "{{ 'a' + 1 }}"),
    ("undefined to JSON", "{{ missing | tojson }}"),
    ("unknown method", "{{ 'a'.explode() }}"),
    ("changing a list", "{% set l = [] %}{{ l.append(1) }}"),
    ("empty separator", "{{ 'a'.split('') }}"),
];

fn compile(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, &TemplateTokens::default()).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn render(source: &str, variables: &Map<String, Json>) -> Result<String, TemplateError> {
    let input = RenderInput {
        ending: Ending::Closed,
        variables: Some(variables),
        now: support::now(),
        ..RenderInput::default()
    };
    compile(source).render(&input).map(|rendered| rendered.text)
}

fn references(sources: impl Iterator<Item = &'static str>) -> Vec<Reference> {
    let case = |source| {
        json!({
            "template": source, "messages": [], "tools": null, "documents": null, "variables": {},
            "add_generation_prompt": false, "continue_final_message": false,
        })
    };
    support::reference_results(&sources.map(case).collect::<Vec<Json>>())
}

#[test]
fn templates_may_do_what_they_may_in_transformers() {
    for ((case, source, expected), reference) in TEXTS.iter().zip(references(TEXTS.iter().map(|row| row.1))) {
        assert!(matches!(&reference, Reference::Text(text) if text == expected), "{case}: {reference:?}");
        assert_eq!(render(source, &Map::new()).as_deref(), Ok(*expected), "{case}");
    }
}

#[test]
fn raised_messages_are_those_of_the_template() {
    for ((case, source, expected), reference) in RAISED.iter().zip(references(RAISED.iter().map(|row| row.1)))
    {
        assert!(matches!(&reference, Reference::Raised(text) if text == expected), "{case}: {reference:?}");
        assert_eq!(render(source, &Map::new()), Err(TemplateError::Raised((*expected).to_owned())), "{case}");
    }
}

#[test]
fn what_fails_in_transformers_fails_here() {
    for ((case, source), reference) in FAILING.iter().zip(references(FAILING.iter().map(|row| row.1))) {
        assert!(matches!(reference, Reference::Failed(_)), "{case}: {reference:?}");
        assert!(matches!(render(source, &Map::new()), Err(TemplateError::Failed { .. })), "{case}");
    }
}

#[test]
fn c168u_a_vast_indent_is_refused() {
    for source in [
        "{{ [1] | tojson(indent=2**63) }}",
        "{{ [1] | tojson(indent=100000) }}",
        "{{ [1] | tojson(indent='x' * 100) }}",
    ] {
        assert!(matches!(render(source, &Map::new()), Err(TemplateError::Failed { .. })), "{source}");
    }
}

#[test]
fn a_template_that_never_ends_is_ended() {
    for source in [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(a='xxxxxxxx') %}{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ 'x' * 99999999999 }}",
    ] {
        assert!(render(source, &Map::new()).is_err(), "{source}");
    }
}

#[test]
fn a_list_that_doubles_is_ended_before_it_takes_the_memory() {
    let doubled = |step: &str| {
        format!(
            "{{% set ns = namespace(l=[1], e=[]) %}}{{% for i in range(60) %}}{{% set ns.l = {step} %}}{{% endfor %}}x"
        )
    };
    for source in [
        doubled("ns.l + ns.l"),
        doubled("{'a': {'b': ns.l}}.a.b + ns.l"),
        doubled("[ns.l, ns.l] | sum(start=[])"),
        doubled("ns.l | chain(ns.l)"),
        doubled("[1] * 50000000 + [1] * 50000000 + ns.l"),
        doubled("[ns.l, ns.l]") + "{{ ns.l }}",
        doubled("{'a': ns.l, 'b': ns.l}") + "{{ ns.l | trim }}",
    ] {
        let ended = render(&source, &Map::new());
        assert!(
            matches!(&ended, Err(TemplateError::OutOfFuel | TemplateError::Failed { .. })),
            "{source}: {ended:?}"
        );
    }
    assert_eq!(render(&doubled("ns.e + ns.e"), &Map::new()).as_deref(), Ok("x"));
}

#[test]
fn a_long_conversation_may_be_gathered_entry_by_entry() {
    let source = "{% set ns = namespace(l=[]) %}{% for i in range(12000) %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.l | length }} {{ ns.l[-1] }}";
    assert_eq!(render(source, &Map::new()).as_deref(), Ok("12000 11999"));
}

#[test]
fn deep_values_print_and_are_refused_as_json() {
    let nest = "{% set ns = namespace(a=1) %}{% for i in range(900) %}{% set ns.a = [ns.a] %}{% endfor %}";
    let printed = render(&format!("{nest}{{{{ ns.a }}}}"), &Map::new());
    assert_eq!(printed, Ok(format!("{}1{}", "[".repeat(900), "]".repeat(900))));
    assert!(matches!(
        render(&format!("{nest}{{{{ ns.a | tojson }}}}"), &Map::new()),
        Err(TemplateError::Failed { .. })
    ));
}

#[test]
fn c151_two_users_running_are_refused_in_the_templates_words() {
    let source = "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}\
                  {{ raise_exception('Conversation roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}";
    let messages = [json!({"role": "user", "content": "a"}), json!({"role": "user", "content": "b"})];
    let input = RenderInput { messages: &messages, ..RenderInput::default() };
    assert_eq!(
        compile(source).render(&input),
        Err(TemplateError::Raised("Conversation roles must alternate".to_owned()))
    );
}

#[test]
fn c136u_arguments_of_a_replayed_call_keep_the_order_of_their_keys() {
    let source = "{% for call in messages[0].tool_calls %}{{ call.function.arguments | tojson }}{% endfor %}";
    let arguments = r#"{"zeta": 1, "alpha": {"y": 2, "b": [3]}, "mu": null}"#;
    let call = json!({"type": "function", "function": {"name": "f", "arguments": arguments}});
    let messages = [json!({"role": "assistant", "content": null, "tool_calls": [call]})];
    let input = RenderInput { messages: &messages, ..RenderInput::default() };
    assert_eq!(compile(source).render(&input).expect("it renders").text, arguments);
}

#[test]
fn a_source_that_does_not_parse_is_a_syntax_error_with_its_line() {
    let error = ChatTemplate::new("a\n{% if %}", &TemplateTokens::default()).expect_err("it does not parse");
    assert!(matches!(&error, TemplateError::Syntax { message } if message.contains(":2")), "{error}");
}

#[test]
fn the_clients_variables_do_not_replace_the_conversation() {
    let variables = json!({"messages": "forged", "x": {"a": [1, 2.5]}, "add_generation_prompt": "yes"});
    let text =
        render("{{ messages }}{{ x }}{{ add_generation_prompt }}", variables.as_object().expect("a mapping"));
    assert_eq!(text.as_deref(), Ok("[]{'a': [1, 2.5]}False"));
}

#[test]
fn a_message_that_is_not_printed_cannot_be_continued() {
    let messages = [json!({"role": "assistant", "content": "so far"})];
    let input =
        RenderInput { messages: &messages, ending: Ending::ContinueFinalMessage, ..RenderInput::default() };
    assert!(matches!(compile("nothing").render(&input), Err(TemplateError::NotContinuable { .. })));
    assert_eq!(compile("{{ messages[0].content }}<end>").render(&input).expect("it prints").text, "so far");
}
