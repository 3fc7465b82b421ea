//! Where a dataset lies: a URI, read but not looked at.

use std::fmt;

use super::DatasetError;
#[cfg(feature = "cloud")]
use crate::store::cloud::{Address, Kind};
use crate::store::legible::legible;

/// A path, a URI of a local file, of HDFS or of an object store, or a pattern of these; a directory stands for
/// the Parquet files under it. Several URIs of one store, with spaces between, are one dataset's in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    uri: String,
    pub(super) place: Place,
    /// Beside the first.
    pub(super) more: Vec<Place>,
}

/// Which store, and the path or pattern there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Local(String),
    #[cfg(feature = "hdfs")]
    Hdfs {
        /// `HOST:PORT`, a nameservice, or empty for the default one.
        authority: String,
        /// Begins with a slash. Letter by letter, as Hadoop takes it: a percent sign is one.
        path: String,
    },
    #[cfg(feature = "cloud")]
    Cloud {
        address: Address,
        /// Without a first slash, letter by letter as the store has them; one unless several files are named.
        paths: Vec<String>,
    },
}

impl Location {
    /// # Errors
    /// When the URI is empty, of a scheme that is not known, or without an absolute path.
    pub fn parse(uri: &str) -> Result<Self, DatasetError> {
        let mut places = split_places(uri).into_iter().map(Place::parse);
        let place = places.next().expect("a text has a first part")?;
        let more = places.collect::<Result<Vec<_>, _>>()?;
        match more.iter().all(|other| other.is_beside(&place)) {
            true => Ok(Self { uri: uri.to_owned(), place, more }),
            false => Err(DatasetError::SeveralStores { uri: uri.to_owned() }),
        }
    }
}

impl Place {
    fn parse(uri: &str) -> Result<Self, DatasetError> {
        let unknown = || DatasetError::UnknownPlace { uri: uri.to_owned() };
        let place = match split_scheme(uri) {
            None => Some(Place::Local(uri.to_owned())),
            // The authority of a file URI is empty or this host.
            Some(("file", rest)) => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                path.starts_with('/').then(|| decode_percent(path)).flatten().map(Place::Local)
            }
            #[cfg(feature = "hdfs")]
            Some(("hdfs", rest)) => {
                let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
                Some(Place::Hdfs { authority: authority.to_owned(), path: absolute(path) })
            }
            #[cfg(feature = "cloud")]
            Some((scheme, rest)) => Address::parse(scheme, rest).and_then(|(address, paths)| {
                let decode = |path: &str| match address.kind {
                    Kind::Http => decode_percent(path),
                    _ => Some(path.to_owned()),
                };
                let paths = paths.into_iter().map(decode).collect::<Option<_>>()?;
                Some(Place::Cloud { address, paths })
            }),
            #[cfg(not(feature = "cloud"))]
            Some(_) => None,
        };
        match place {
            Some(Place::Local(path)) if path.is_empty() => Err(unknown()),
            Some(place) => Ok(place),
            None => Err(unknown()),
        }
    }

    /// Whether both are in one store.
    fn is_beside(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local(_), Self::Local(_)) => true,
            #[cfg(feature = "hdfs")]
            (Self::Hdfs { authority, .. }, Self::Hdfs { authority: other, .. }) => authority == other,
            #[cfg(feature = "cloud")]
            (Self::Cloud { address, .. }, Self::Cloud { address: other, .. }) => address == other,
            #[cfg(any(feature = "hdfs", feature = "cloud"))]
            _ => false,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.more.len() {
            0 => f.write_str(&legible(&self.uri)),
            more => write!(f, "{} and {more} more", legible(split_places(&self.uri)[0])),
        }
    }
}

/// With single slashes, as the NameNode takes it.
#[cfg(feature = "hdfs")]
fn absolute(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("/{}", parts.join("/"))
}

/// The URIs of a text: what follows a space is another if it has a scheme. Those of web servers are told apart by whoever knows them.
fn split_places(text: &str) -> Vec<&str> {
    if split_scheme(text).is_none_or(|(scheme, _)| matches!(scheme, "http" | "https")) {
        return vec![text];
    }
    let (mut places, mut begin) = (Vec::new(), 0);
    for (space, _) in text.match_indices(' ') {
        if split_scheme(&text[space + 1..]).is_some() {
            places.push(&text[begin..space]);
            begin = space + 1;
        }
    }
    places.push(&text[begin..]);
    places
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
        match Location::parse(uri).ok()?.place {
            Place::Local(path) => Some(path),
            #[cfg(feature = "hdfs")]
            Place::Hdfs { authority, path } => Some(format!("{authority} {path}")),
            #[cfg(feature = "cloud")]
            Place::Cloud { address, paths } => Some(format!("{} {}", address.root, paths.join(" "))),
        }
    }

    #[test]
    fn paths_and_file_uris_are_read() {
        assert_eq!(path("data/*.parquet").as_deref(), Some("data/*.parquet"));
        assert_eq!(path("data/100%.parquet").as_deref(), Some("data/100%.parquet"));
        assert_eq!(path("file:///data/a%20b.parquet").as_deref(), Some("/data/a b.parquet"));
        assert_eq!(path("file://localhost/data").as_deref(), Some("/data"));
    }

    #[cfg(feature = "hdfs")]
    #[test]
    fn hdfs_uris_are_read_as_hadoop_reads_them() {
        assert_eq!(path("hdfs://nn:8020/data/*.parquet").as_deref(), Some("nn:8020 /data/*.parquet"));
        assert_eq!(path("hdfs://ns//a//b%20c/").as_deref(), Some("ns /a/b%20c"));
        assert_eq!(path("hdfs:///data").as_deref(), Some(" /data"));
        assert_eq!(path("hdfs://ns").as_deref(), Some("ns /"));
    }

    #[cfg(feature = "cloud")]
    #[test]
    fn keys_are_read_as_they_are_and_paths_of_web_servers_are_decoded() {
        assert_eq!(path("s3://b/a%20b/*.parquet").as_deref(), Some("s3://b/ a%20b/*.parquet"));
        assert_eq!(path("https://h/a%20b https://h/c").as_deref(), Some("https://h/ a b c"));
        assert_eq!(path("https://h/a%2"), None);
    }

    #[test]
    fn several_uris_of_one_store_are_one_location() {
        let location = Location::parse("file:///a%20b/x file:///c/*.parquet file:///d").unwrap();
        assert_eq!(location.place, Place::Local("/a b/x".to_owned()));
        assert_eq!(location.more, ["/c/*.parquet", "/d"].map(|path| Place::Local(path.to_owned())));
        assert_eq!(location.to_string(), "file:///a%20b/x and 2 more");
        // A path may have spaces, and so may what follows a scheme.
        for uri in ["a b file:///c", "file:///a b"] {
            assert!(Location::parse(uri).unwrap().more.is_empty(), "{uri}");
        }
        #[cfg(feature = "hdfs")]
        for uri in ["hdfs://a/x hdfs://b/x", "file:///a hdfs://a/x"] {
            assert!(Location::parse(uri).unwrap_err().to_string().contains("lie in one store"), "{uri}");
        }
    }

    #[test]
    fn other_places_are_refused_in_words() {
        for uri in ["", "ftp://nn/data", "s3:///x", "file://data/x", "file:///a%2", "file:///a%zz"] {
            let error = Location::parse(uri).unwrap_err();
            assert!(error.to_string().contains("give a path"), "{error}");
        }
    }
}
