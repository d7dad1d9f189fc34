//! One endpoint as the document tells of it.

use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{AnyOfBuilder, Object, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{ContentBuilder, HttpMethod, PathItem, Ref, RefOr, Required, ResponseBuilder};

use super::error::ErrorResponse;
use super::request::{Described, Request};

/// The scheme of `Authorization: Bearer KEY`.
pub(super) const BEARER: &str = "bearer";
/// The scheme of `x-api-key: KEY`.
pub(super) const API_KEY: &str = "api_key";

/// Why a request fails, by the status that says so. Each body is an [`ErrorResponse`].
const FAILURES: [(u16, &str); 11] = [
    (400, "The request is wrong; `param` names the part."),
    (401, "No valid key."),
    (404, "No such model, or no such path."),
    (408, "The body did not arrive in time."),
    (413, "The body is larger than the server reads."),
    (415, "The body is compressed."),
    (429, "A queue is full or a rate is used up; `Retry-After` says when to come back."),
    (500, "Something broke that is not the client's to mend."),
    (503, "No model is loaded yet, or the server is being shut down."),
    (504, "The request's time was up."),
    (529, "What other endpoints say as 503."),
];

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Everybody.
    Open,
    /// A tenant, by its key; on a server without keys everybody.
    Tenant,
    /// The operator, by the admin key.
    Operator,
}

/// One method of one path.
pub(super) struct Endpoint {
    path: &'static str,
    method: HttpMethod,
    operation: OperationBuilder,
    success: ResponseBuilder,
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl Endpoint {
    /// A GET of `path`, named `id` in clients that are generated.
    pub(super) fn get(path: &'static str, id: &str, tag: &str, summary: &str) -> Self {
        Self::new(
            HttpMethod::Get,
            path,
            OperationBuilder::new().operation_id(Some(id)).tag(tag).summary(Some(summary)),
        )
    }

    /// A DELETE of `path`.
    pub(super) fn delete(path: &'static str, id: &str, tag: &str, summary: &str) -> Self {
        let operation = OperationBuilder::new().operation_id(Some(id)).tag(tag).summary(Some(summary));
        Self::new(HttpMethod::Delete, path, operation)
    }

    /// A POST to `path`.
    pub(super) fn post(path: &'static str, id: &str, tag: &str, summary: &str) -> Self {
        Self::new(
            HttpMethod::Post,
            path,
            OperationBuilder::new().operation_id(Some(id)).tag(tag).summary(Some(summary)),
        )
    }

    fn new(method: HttpMethod, path: &'static str, operation: OperationBuilder) -> Self {
        let success = ResponseBuilder::new().description("As asked for.");
        Self { path, method, operation, success, schemas: Vec::new() }
    }

    /// Who may ask; without this, everybody.
    pub(super) fn for_whom(mut self, access: Access) -> Self {
        let key = |scheme: &str| SecurityRequirement::new(scheme, [""; 0]);
        let keys = [key(BEARER), key(API_KEY)];
        self.operation = match access {
            Access::Open => self.operation,
            Access::Tenant => {
                self.operation.securities(Some(keys.into_iter().chain([SecurityRequirement::default()])))
            }
            Access::Operator => self.operation.securities(Some(keys)),
        };
        self
    }

    /// A string in the path.
    pub(super) fn part(mut self, name: &str, description: &str) -> Self {
        let parameter: Parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(description))
            .schema(Some(Object::with_type(Type::String)))
            .build();
        self.operation = self.operation.parameter(parameter);
        self
    }

    /// A parameter of the query, which may be absent.
    pub(super) fn query(mut self, name: &str, schema: Object, description: &str) -> Self {
        let parameter: Parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .description(Some(description))
            .schema(Some(schema))
            .build();
        self.operation = self.operation.parameter(parameter);
        self
    }

    /// A JSON body, described by `request`.
    pub(super) fn takes(mut self, request: Request) -> Self {
        let Described { name, schema, nested, examples } = request.build();
        let examples = examples.into_iter().map(|(name, body)| {
            let example = ExampleBuilder::new().value(Some(body)).build();
            (name, RefOr::T(example))
        });
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(&name)));
        let content = content.examples_from_iter(examples).build();
        let body =
            RequestBodyBuilder::new().content("application/json", content).required(Some(Required::True));
        self.operation = self.operation.request_body(Some(body.build()));
        self.schemas.extend(nested);
        self.schemas.push((name, schema));
        self
    }

    /// A JSON answer.
    pub(super) fn answers<T: ToSchema>(mut self) -> Self {
        let content = ContentBuilder::new().schema(Some(self.reference::<T>())).build();
        self.success = self.success.content("application/json", content);
        self
    }

    /// The answer with `stream: true`. What stands for the body is one of its events, each of which holds a `T`.
    pub(super) fn streams<T: ToSchema>(mut self) -> Self {
        let [part, error] = [self.reference::<T>(), self.reference::<ErrorResponse>()].map(|content| {
            let text = ObjectBuilder::new().schema_type(Type::String).content_media_type("application/json");
            text.content_schema(Some(content))
        });
        let data =
            AnyOfBuilder::new().item(part).item(error).item(word(&["[DONE]"])).description(Some(format!(
                "A {}; an ErrorResponse if the answer fails on its way; in the end, `[DONE]`.",
                T::name()
            )));
        let event = ObjectBuilder::new()
            .property("data", data)
            .required("data")
            .description(Some("One server-sent event. Comments between them keep the connection alive."));
        let content = ContentBuilder::new().schema(Some(event)).build();
        self.success = self.success.content("text/event-stream", content);
        self
    }

    /// The answer with `stream: true` where events have names: each holds a `T`, the last one too.
    pub(super) fn streams_events<T: ToSchema>(mut self) -> Self {
        let text = ObjectBuilder::new().schema_type(Type::String).content_media_type("application/json");
        let event = ObjectBuilder::new()
            .property("event", Object::with_type(Type::String))
            .property("data", text.content_schema(Some(self.reference::<T>())))
            .required("event")
            .required("data")
            .description(Some(format!(
                "One server-sent event, which goes by the `type` of its data, a {}. Comments between them keep the \
                 connection alive.",
                T::name()
            )));
        let content = ContentBuilder::new().schema(Some(event)).build();
        self.success = self.success.content("text/event-stream", content);
        self
    }

    /// An answer in plain text.
    pub(super) fn answers_text(mut self) -> Self {
        let text = Object::with_type(Type::String);
        self.success = self.success.content("text/plain", ContentBuilder::new().schema(Some(text)).build());
        self
    }

    /// The statuses of refusals and faults.
    pub(super) fn fails(self, failures: &'static [u16]) -> Self {
        self.fails_as::<ErrorResponse>(failures)
    }

    /// The same where errors have another shape.
    pub(super) fn fails_as<T: ToSchema>(mut self, failures: &'static [u16]) -> Self {
        let error = self.reference::<T>();
        for (status, description) in FAILURES.into_iter().filter(|(status, _)| failures.contains(status)) {
            let content = ContentBuilder::new().schema(Some(error.clone())).build();
            let response =
                ResponseBuilder::new().description(description).content("application/json", content);
            self.operation = self.operation.response(status.to_string(), response);
        }
        self
    }

    /// A further answer with a body of its own.
    pub(super) fn also_answers<T: ToSchema>(mut self, status: u16, description: &str) -> Self {
        let content = ContentBuilder::new().schema(Some(self.reference::<T>())).build();
        let response = ResponseBuilder::new().description(description).content("application/json", content);
        self.operation = self.operation.response(status.to_string(), response);
        self
    }

    fn reference<T: ToSchema>(&mut self) -> Ref {
        T::schemas(&mut self.schemas);
        self.schemas.push((T::name().into_owned(), T::schema()));
        Ref::from_schema_name(T::name())
    }

    /// Path, operation, and the schemas that it names.
    pub(super) fn build(self) -> (&'static str, PathItem, Vec<(String, RefOr<Schema>)>) {
        let operation = self.operation.response("200", self.success);
        (self.path, PathItem::new(self.method, operation), self.schemas)
    }
}

/// Any of the values, as JSON.
pub(super) fn one_of(values: impl IntoIterator<Item = Value>) -> Object {
    let mut object = Object::new();
    object.enum_values = Some(values.into_iter().collect());
    object
}

/// One of a set of words.
pub(super) fn word(words: &[&str]) -> Object {
    let mut object = one_of(words.iter().map(|word| json!(word)));
    object.schema_type = Type::String.into();
    object
}
