//! Texts as codes of vocabularies that the feed's user gives.
//!
//! In: what the request lists, and record batches. Out: the same batches with int32 in the place of those columns. The
//! promise: a text's code is its place in the list, whatever the files hold; one that is not there has a code too. It
//! knows nothing of steps and slots.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use penstock_proto::hint;

use super::PackError;

/// Of a text that is not in the list, where the list does not say.
const UNKNOWN: i32 = -1;

/// Vocabularies by column name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CodeRules(BTreeMap<String, Arc<Known>>);

#[derive(Debug, PartialEq)]
struct Known {
    codes: HashMap<String, i32>,
    unknown: i32,
}

impl CodeRules {
    /// Lists as the trainer wrote them; `None` in one stands for every text that is not there.
    ///
    /// # Errors
    /// Something is listed twice, and what.
    pub(crate) fn new(lists: BTreeMap<String, Vec<Option<String>>>) -> Result<Self, PackError> {
        let known = |(column, list): (String, Vec<Option<String>>)| {
            let (mut codes, mut unknown) = (HashMap::with_capacity(list.len()), None);
            for (code, text) in (0..).zip(list) {
                let twice = match text {
                    None => unknown.replace(code).map(|_| "null".to_owned()),
                    Some(text) => codes.insert(text.clone(), code).map(|_| format!("{text:?}")),
                };
                if let Some(text) = twice {
                    return Err(PackError::ListedTwice { column, text });
                }
            }
            Ok((column, Arc::new(Known { codes, unknown: unknown.unwrap_or(UNKNOWN) })))
        };
        lists.into_iter().map(known).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What comes of batches of this schema.
    ///
    /// # Errors
    /// A column that there is not, or that holds no texts.
    pub(crate) fn schema(&self, schema: &SchemaRef) -> Result<SchemaRef, PackError> {
        if self.is_empty() {
            return Ok(Arc::clone(schema));
        }
        let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
        for column in self.0.keys() {
            let Ok(place) = schema.index_of(column) else {
                let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
                return Err(PackError::UnknownColumn {
                    argument: "codes",
                    column: column.clone(),
                    hint: hint(column, &names),
                });
            };
            let data_type = fields[place].data_type();
            if !matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
                return Err(PackError::NoTexts { column: column.clone(), data_type: data_type.to_string() });
            }
            fields[place] = Arc::new(Field::new(column, DataType::Int32, fields[place].is_nullable()));
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    /// The batch with codes; a null stays one.
    ///
    /// # Errors
    /// It is not of a schema that [`CodeRules::schema`] took.
    pub(crate) fn code(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(batch.schema_ref().fields());
        let columns = columns.map(|(column, field)| {
            let Some(known) = self.0.get(field.name()) else {
                return (Arc::clone(field), Arc::clone(column));
            };
            let field = Field::new(field.name(), DataType::Int32, field.is_nullable());
            (Arc::new(field), known.codes_of(column))
        });
        let (fields, columns): (Vec<_>, Vec<_>) = columns.unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
    }
}

impl Known {
    fn codes_of(&self, texts: &ArrayRef) -> ArrayRef {
        let code =
            |text: Option<&str>| text.map(|text| self.codes.get(text).copied().unwrap_or(self.unknown));
        let codes: Int32Array = match texts.data_type() {
            DataType::Utf8 => texts.as_string::<i32>().iter().map(code).collect(),
            DataType::LargeUtf8 => texts.as_string::<i64>().iter().map(code).collect(),
            _ => texts.as_string_view().iter().map(code).collect(),
        };
        Arc::new(codes)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, LargeStringArray, StringArray, StringViewArray};

    use super::*;

    fn rules(lists: &str) -> Result<CodeRules, PackError> {
        CodeRules::new(serde_json::from_str(lists).unwrap())
    }

    #[test]
    fn a_code_is_a_place_in_the_list_and_unknown_texts_have_one_too() {
        let texts = [Some("red"), None, Some("blue"), Some("green")];
        let arrays: [ArrayRef; 3] = [
            Arc::new(StringArray::from_iter(texts)),
            Arc::new(LargeStringArray::from_iter(texts)),
            Arc::new(StringViewArray::from_iter(texts)),
        ];
        for (list, unknown) in [(r#"["red","green"]"#, -1), (r#"["red","green",null]"#, 2)] {
            let rules = rules(&format!(r#"{{"color":{list}}}"#)).unwrap();
            for array in &arrays {
                let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
                let batch = RecordBatch::try_from_iter([("id", ids), ("color", Arc::clone(array))]).unwrap();
                let coded = rules.code(&batch).unwrap();
                let expected = Int32Array::from(vec![Some(0), None, Some(unknown), Some(1)]);
                assert_eq!(coded.column(1).as_primitive(), &expected);
                assert_eq!(coded.column(0), batch.column(0));
                assert_eq!(rules.schema(batch.schema_ref()).unwrap(), coded.schema());
            }
        }
    }

    #[test]
    fn what_is_no_vocabulary_is_refused_by_name() {
        let check = |lists: &str, said: &str| {
            let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
            let refused = rules(lists).and_then(|rules| rules.schema(&schema)).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        };
        check(r#"{"id":["a","b","a"]}"#, r#"lists "a" twice"#);
        check(r#"{"id":[null,null]}"#, "lists null twice");
        check(r#"{"id":["a"]}"#, "holds Int64");
        check(r#"{"ids":["a"]}"#, r#"did you mean "id"?"#);
    }
}
