//! The reasoning of a chat request: `reasoning_effort`, `thinking_token_budget` and `include_reasoning`.

use serde_json::{Map, Value};
use troupe_actors::model_card::ModelCard;

use super::error::{ApiError, echo};
use super::fields::Fields;

pub(super) const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
/// Variables by which templates are told whether to reason.
const SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];
const EFFORT: &str = "reasoning_effort";
const DEFAULT_EFFORT: &str = "medium";
const BUDGET: &str = "thinking_token_budget";
const CANNOT_TURN_OFF: &str = "this model's chat template cannot turn reasoning off";

/// What a request wants of its answer's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReasoningOptions {
    /// Whether the answer shows it.
    pub(super) is_shown: bool,
    /// The most tokens of it.
    pub(super) budget: Option<u32>,
}

/// Whether a model reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    /// It does.
    On,
    /// It does not.
    Off,
}

/// Tells the template by its `variables` whether to reason, as `param` asks.
///
/// # Errors
/// If it reasons whatever it is told.
pub(super) fn switch(
    param: &str,
    wanted: Switch,
    card: &ModelCard,
    variables: &mut Map<String, Value>,
) -> Result<(), ApiError> {
    let is_told = set_switches(wanted, card, variables);
    if is_told || wanted == Switch::On || !card.output.has_reasoning() {
        return Ok(());
    }
    let reason = CANNOT_TURN_OFF.to_owned();
    Err(ApiError::Unsupported { param: param.to_owned(), reason })
}

/// Takes the fields. What they mean to the template is added to its `variables`, unless these say it already.
///
/// # Errors
/// An unknown effort, or one that makes no difference to this model; a budget for what it does not mark by tags.
pub(super) fn read(
    fields: &mut Fields,
    card: &ModelCard,
    variables: &mut Map<String, Value>,
) -> Result<ReasoningOptions, ApiError> {
    if let Some(effort) = fields.string(EFFORT)? {
        set_effort(&effort, card, variables)?;
    }
    let is_shown = fields.bool("include_reasoning")?.unwrap_or(true);
    Ok(ReasoningOptions { is_shown, budget: budget(fields, card)? })
}

fn budget(fields: &mut Fields, card: &ModelCard) -> Result<Option<u32>, ApiError> {
    match fields.unsigned(BUDGET)? {
        None => Ok(None),
        Some(0) => Err(ApiError::invalid(BUDGET, "0 is less than the minimum of 1")),
        Some(_) if card.output.reasoning.is_none() => Err(ApiError::Unsupported {
            param: BUDGET.to_owned(),
            reason: "this model's chat template has no tags for reasoning".to_owned(),
        }),
        budget => Ok(budget),
    }
}

fn set_effort(effort: &str, card: &ModelCard, variables: &mut Map<String, Value>) -> Result<(), ApiError> {
    if !EFFORTS.contains(&effort) {
        let reason = format!("{:?} is not one of {}", echo(effort), EFFORTS.join(", "));
        return Err(ApiError::invalid(EFFORT, reason));
    }
    let wanted = if effort == "none" { Switch::Off } else { Switch::On };
    let is_told = set_switches(wanted, card, variables);
    match (has_efforts(card), wanted) {
        (true, Switch::On) => {
            variables.entry(EFFORT).or_insert(Value::from(effort));
            Ok(())
        }
        _ if is_told || changes_nothing(effort, card) => Ok(()),
        (true, Switch::Off) => Err(refused(CANNOT_TURN_OFF)),
        (false, _) => Err(refused("this model's chat template has no setting for it")),
    }
}

/// Sets the variables that the template reads for it, unless they say it already; false if it reads none.
fn set_switches(wanted: Switch, card: &ModelCard, variables: &mut Map<String, Value>) -> bool {
    let mut is_told = false;
    for name in SWITCHES.into_iter().filter(|name| reads(card, name)) {
        variables.entry(name).or_insert(Value::Bool(wanted == Switch::On));
        is_told = true;
    }
    is_told
}

fn reads(card: &ModelCard, name: &str) -> bool {
    card.template.as_ref().is_some_and(|template| template.reads(name))
}

/// Whether the template tells the model how much effort to make.
pub(super) fn has_efforts(card: &ModelCard) -> bool {
    reads(card, EFFORT)
}

/// The effort that OpenAI takes for one that is left out asks for nothing: clients send it whatever the model is. A model
/// that does not reason makes none.
fn changes_nothing(effort: &str, card: &ModelCard) -> bool {
    effort == DEFAULT_EFFORT || effort == "none" && !card.output.has_reasoning()
}

fn refused(reason: &str) -> ApiError {
    ApiError::Unsupported { param: EFFORT.to_owned(), reason: reason.to_owned() }
}

/// A model with this template.
#[cfg(test)]
pub(super) fn card_with(template: &str) -> ModelCard {
    use troupe_actors::output_syntax::OutputSyntax;
    use troupe_actors::template::{ChatTemplate, TemplateTokens};
    let plain = troupe_actors::testing::model_card(64).unwrap();
    let output = OutputSyntax::choose("auto", "auto", Some(template), &plain.tokenizer).unwrap();
    let template = ChatTemplate::new(template, &TemplateTokens::default()).unwrap();
    ModelCard { template: Some(std::sync::Arc::new(template)), output, ..plain }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{card_with as card, *};

    const SWITCH: &str = "{% if enable_thinking %}<think>{% endif %}{{ messages[0].content }}";
    const EFFORTFUL: &str = "Reasoning: {{ reasoning_effort }} </think> {{ messages[0].content }}";
    const ALWAYS: &str = "{{ messages[0].content }}<think>";
    const NEVER: &str = "{{ messages[0].content }}";

    #[test]
    fn an_effort_reaches_the_variables_that_the_template_reads() {
        for (template, effort, expected) in [
            (SWITCH, "none", json!({"enable_thinking": false})),
            (SWITCH, "high", json!({"enable_thinking": true})),
            (EFFORTFUL, "low", json!({"reasoning_effort": "low"})),
            (EFFORTFUL, "max", json!({"reasoning_effort": "max"})),
            (ALWAYS, "medium", json!({})),
            (NEVER, "none", json!({})),
            (NEVER, "medium", json!({})),
        ] {
            let mut variables = Map::new();
            let mut fields = Fields::of(json!({ "reasoning_effort": effort }), "body").unwrap();
            let options = read(&mut fields, &card(template), &mut variables);
            assert_eq!(options, Ok(ReasoningOptions { is_shown: true, budget: None }), "{template} {effort}");
            assert_eq!(Value::Object(variables), expected, "{template} {effort}");
        }
        let mut variables = Map::from_iter([("enable_thinking".to_owned(), json!(true))]);
        let mut fields = Fields::of(
            json!({"reasoning_effort": "none", "include_reasoning": false, "thinking_token_budget": 9}),
            "",
        )
        .unwrap();
        assert_eq!(
            read(&mut fields, &card(SWITCH), &mut variables),
            Ok(ReasoningOptions { is_shown: false, budget: Some(9) })
        );
        assert_eq!(variables["enable_thinking"], true);
    }

    #[test]
    fn an_effort_that_would_be_ignored_is_refused() {
        for (template, effort, message) in [
            (
                SWITCH,
                "much",
                "invalid value for 'reasoning_effort': \"much\" is not one of none, minimal, low, medium, high, \
                 xhigh, max",
            ),
            (
                EFFORTFUL,
                "none",
                "'reasoning_effort' is not supported: this model's chat template cannot turn reasoning off",
            ),
            (
                ALWAYS,
                "high",
                "'reasoning_effort' is not supported: this model's chat template has no setting for it",
            ),
            (
                NEVER,
                "low",
                "'reasoning_effort' is not supported: this model's chat template has no setting for it",
            ),
        ] {
            let mut fields = Fields::of(json!({ "reasoning_effort": effort }), "body").unwrap();
            let error = read(&mut fields, &card(template), &mut Map::new()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn a_budget_is_for_what_has_tags() {
        for (template, budget, message) in [
            (
                NEVER,
                5,
                "'thinking_token_budget' is not supported: this model's chat template has no tags for reasoning",
            ),
            (ALWAYS, 0, "invalid value for 'thinking_token_budget': 0 is less than the minimum of 1"),
        ] {
            let mut fields = Fields::of(json!({ "thinking_token_budget": budget }), "body").unwrap();
            let error = read(&mut fields, &card(template), &mut Map::new()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
