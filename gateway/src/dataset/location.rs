//! Where a dataset lies: a URI, read but not looked at.

use std::fmt;

use super::DatasetError;

/// A path, a `file://` URI, or a pattern of either; a directory stands for the Parquet files under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    uri: String,
    path: String,
}

impl Location {
    /// # Errors
    /// When the URI is empty, of another scheme than `file`, or a `file` URI without an absolute path.
    pub fn parse(uri: &str) -> Result<Self, DatasetError> {
        let unknown = || DatasetError::UnknownPlace { uri: uri.to_owned() };
        let path = match split_scheme(uri) {
            None => Some(uri.to_owned()),
            // The authority of a file URI is empty or this host.
            Some(("file", rest)) => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                path.starts_with('/').then(|| decode_percent(path)).flatten()
            }
            Some(_) => None,
        };
        match path {
            Some(path) if !path.is_empty() => Ok(Self { uri: uri.to_owned(), path }),
            _ => Err(unknown()),
        }
    }

    /// The path or pattern in the file system.
    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri)
    }
}

/// `scheme://rest`, if the text is such.
fn split_scheme(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then_some((scheme, rest))
}

/// `None` when an escape is cut short or the bytes are not UTF-8.
fn decode_percent(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(uri: &str) -> Option<String> {
        Location::parse(uri).ok().map(|location| location.path)
    }

    #[test]
    fn paths_and_file_uris_are_read() {
        assert_eq!(path("data/*.parquet").as_deref(), Some("data/*.parquet"));
        assert_eq!(path("data/100%.parquet").as_deref(), Some("data/100%.parquet"));
        assert_eq!(path("file:///data/a%20b.parquet").as_deref(), Some("/data/a b.parquet"));
        assert_eq!(path("file://localhost/data").as_deref(), Some("/data"));
    }

    #[test]
    fn other_places_are_refused_in_words() {
        for uri in ["", "hdfs://nn/data", "s3://bucket/x", "file://data/x", "file:///a%2", "file:///a%zz"] {
            let error = Location::parse(uri).unwrap_err();
            assert!(error.to_string().contains("give a path"), "{error}");
        }
    }
}
