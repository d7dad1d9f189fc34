//! The schema of a request's body, put together as the readers read it: fields of the endpoint, fields that several
//! endpoints share, and fields that are accepted with the values that ask for nothing.

use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, Object, Schema, SchemaType, Type};
use utoipa::openapi::{Deprecated, RefOr};
use utoipa::{Number, ToSchema};

use super::endpoint::one_of;
use crate::http::fields::Unimplemented;

/// The body of one endpoint.
pub(super) struct Request {
    name: String,
    object: Object,
    schemas: Vec<(String, RefOr<Schema>)>,
    examples: Vec<(&'static str, Value)>,
}

/// What the document holds of a body.
pub(super) struct Described {
    /// The name of the schema.
    pub(super) name: String,
    /// The schema.
    pub(super) schema: RefOr<Schema>,
    /// Schemas that it names.
    pub(super) nested: Vec<(String, RefOr<Schema>)>,
    /// Bodies that are answered.
    pub(super) examples: Vec<(&'static str, Value)>,
}

impl Request {
    /// A body with the fields of `T`, and no others so far.
    pub(super) fn of<T: ToSchema>() -> Self {
        let mut request = Self {
            name: T::name().into_owned(),
            object: Object::new(),
            schemas: Vec::new(),
            examples: Vec::new(),
        };
        let RefOr::T(Schema::Object(object)) = T::schema() else { return request };
        request.object = object;
        request.object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        T::schemas(&mut request.schemas);
        request
    }

    /// Fields that other endpoints have too.
    pub(super) fn and<T: ToSchema>(mut self) -> Self {
        if let RefOr::T(Schema::Object(object)) = T::schema() {
            self.object.properties.extend(object.properties);
            self.object.required.extend(object.required);
        }
        T::schemas(&mut self.schemas);
        self
    }

    /// Fields that are not implemented: those of them that some value is accepted of.
    pub(super) fn neutral(mut self, fields: &[Unimplemented]) -> Self {
        for field in fields.iter().filter(|field| !field.neutral.is_empty()) {
            // What one endpoint does not implement for some of its requests, it does for others.
            if self.object.properties.contains_key(field.name) {
                continue;
            }
            self.object.properties.insert(field.name.to_owned(), neutral(field.neutral).into());
        }
        self
    }

    /// What `other` takes and this body has not, but for the names that are `reserved`: they mean something else here.
    pub(super) fn and_rest_of(mut self, other: Self, reserved: &[&str]) -> Self {
        for (name, schema) in other.object.properties {
            if !reserved.contains(&name.as_str()) && !self.object.properties.contains_key(&name) {
                self.object.properties.insert(name, schema);
            }
        }
        self.schemas.extend(other.schemas);
        self
    }

    /// Lets a list be absent that is required elsewhere.
    pub(super) fn optional(mut self, name: &str) -> Self {
        self.object.required.retain(|required| required != name);
        if let Some(RefOr::T(Schema::Array(array))) = self.object.properties.get_mut(name) {
            array.schema_type = SchemaType::from_iter([Type::Array, Type::Null]);
        }
        self
    }

    /// Lets numbers be less than elsewhere.
    pub(super) fn at_least(mut self, names: &[&str], least: usize) -> Self {
        for name in names {
            if let Some(RefOr::T(Schema::Object(number))) = self.object.properties.get_mut(*name) {
                number.minimum = Some(Number::from(least));
            }
        }
        self
    }

    /// A body that is answered.
    pub(super) fn example(mut self, name: &'static str, body: Value) -> Self {
        self.examples.push((name, body));
        self
    }

    /// What the document holds.
    pub(super) fn build(self) -> Described {
        let Self { name, object, schemas, examples } = self;
        Described { name, schema: Schema::Object(object).into(), nested: schemas, examples }
    }

    /// Names of the fields.
    #[cfg(test)]
    pub(super) fn names(&self) -> std::collections::BTreeSet<String> {
        self.object.properties.keys().cloned().collect()
    }
}

/// A field that is not implemented: the values, as JSON, that ask for nothing.
pub(super) fn neutral(values: &[&str]) -> Object {
    let values = values.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let mut schema = one_of(values.chain([Value::Null]));
    schema.schema_type = SchemaType::AnyValue;
    schema.description = Some("Not implemented: accepted where it asks for nothing.".to_owned());
    schema.deprecated = Some(Deprecated::True);
    schema
}
