//! The different texts of a column, and the code of each.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Int32Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// Texts in rising order of their UTF-8; a text's code is its place among them.
#[derive(Debug)]
pub struct Vocabulary {
    texts: Vec<String>,
    codes: HashMap<String, i32>,
}

impl Vocabulary {
    /// # Panics
    /// There are more texts than int32 counts.
    pub(crate) fn of(texts: impl IntoIterator<Item = String>) -> Self {
        let mut texts: Vec<String> = texts.into_iter().collect();
        texts.sort_unstable();
        texts.dedup();
        let code = |place: usize| i32::try_from(place).expect("vocabularies are bounded");
        let codes = texts.iter().enumerate().map(|(place, text)| (text.clone(), code(place))).collect();
        Self { texts, codes }
    }

    pub(crate) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The codes of texts; a null has none.
    ///
    /// # Errors
    /// When one is unknown, which no text of the snapshot is that the vocabulary was made of.
    pub(crate) fn codes(&self, texts: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let texts = views(texts)?;
        let unknown = |text: &str| {
            let message = format!("text {text:?} was not in the column when its vocabulary was made");
            ArrowError::ComputeError(message)
        };
        let codes = texts.iter().map(|text| match text {
            None => Ok(0),
            Some(text) => self.codes.get(text).copied().ok_or_else(|| unknown(text)),
        });
        let codes: Vec<i32> = codes.collect::<Result<_, _>>()?;
        Ok(Arc::new(Int32Array::new(codes.into(), texts.nulls().cloned())))
    }
}

/// Texts of any layout, dictionaries too, in one.
pub(crate) fn views(texts: &ArrayRef) -> Result<StringViewArray, ArrowError> {
    let views = match texts.data_type() {
        DataType::Dictionary(_, values) => cast(&cast(texts, values)?, &DataType::Utf8View)?,
        _ => cast(texts, &DataType::Utf8View)?,
    };
    Ok(views.as_string_view().clone())
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, LargeStringArray, StringArray};
    use arrow::datatypes::Int8Type;

    use super::*;

    #[test]
    fn texts_of_every_layout_have_the_same_codes_and_nulls_have_none() {
        let vocabulary = Vocabulary::of(["b", "ä", "", "a", "b"].map(str::to_owned));
        assert_eq!(vocabulary.texts(), ["", "a", "b", "ä"]);
        let texts = [Some("b"), None, Some(""), Some("ä")];
        let arrays: [ArrayRef; 4] = [
            Arc::new(StringArray::from_iter(texts)),
            Arc::new(LargeStringArray::from_iter(texts)),
            Arc::new(StringViewArray::from_iter(texts)),
            Arc::new(texts.into_iter().collect::<DictionaryArray<Int8Type>>()),
        ];
        let expected = Int32Array::from(vec![Some(2), None, Some(0), Some(3)]);
        for array in arrays {
            assert_eq!(vocabulary.codes(&array).unwrap().as_primitive(), &expected);
        }
        let other: ArrayRef = Arc::new(StringArray::from(vec!["c"]));
        assert!(vocabulary.codes(&other).unwrap_err().to_string().contains("text \"c\""));
    }
}
