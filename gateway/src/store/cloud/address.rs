//! Which bucket a URI names.
//!
//! In: a URI's scheme and what follows. Out: the bucket, and paths in it as the URI has them. It asks nobody.

/// A family of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    S3,
    Google,
    Azure,
    /// Files behind any web server.
    Http,
}

/// A bucket, a container, or a web server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) kind: Kind,
    /// The bucket's name; of Azure `CONTAINER` or `CONTAINER@HOST`, of a web server its host.
    pub(crate) name: String,
    /// What stands before a path in it where people read it.
    pub(crate) root: String,
}

impl Address {
    /// Several paths where several files of one web server are named, with spaces between them. `None` when
    /// the scheme is of no object store, or no bucket is named.
    pub(crate) fn parse<'a>(scheme: &str, rest: &'a str) -> Option<(Self, Vec<&'a str>)> {
        let kind = match scheme {
            "s3" | "s3a" => Kind::S3,
            "gs" => Kind::Google,
            "az" | "abfs" | "abfss" => Kind::Azure,
            "http" | "https" => Kind::Http,
            _ => return None,
        };
        let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
        if name.is_empty() || name.contains([' ', '*', '?', '[']) {
            return None;
        }
        let root = format!("{scheme}://{name}/");
        let paths = match kind {
            // What follows a question mark is of no file's name, and a store cannot list it.
            Kind::Http if path.contains(['?', '#']) => return None,
            Kind::Http if path.contains(char::is_whitespace) => {
                let (first, others) = path.split_once(char::is_whitespace)?;
                let others = others.split_whitespace().map(|uri| uri.strip_prefix(&root));
                std::iter::once(Some(first)).chain(others).collect::<Option<_>>()?
            }
            _ => vec![path],
        };
        Some((Self { kind, name: name.to_owned(), root }, paths))
    }

    /// Whether directories are nothing but parts of names.
    pub(crate) fn is_flat(&self) -> bool {
        self.kind != Kind::Http
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_told_from_paths() {
        let check = |uri: &str, kind, name: &str, paths: &[&str]| {
            let (scheme, rest) = uri.split_once("://").unwrap();
            let (address, found) = Address::parse(scheme, rest).unwrap();
            assert_eq!((address.kind, address.name.as_str(), found.as_slice()), (kind, name, paths), "{uri}");
        };
        check("s3://bucket/a%20b/*.parquet", Kind::S3, "bucket", &["a%20b/*.parquet"]);
        check("s3a://bucket", Kind::S3, "bucket", &[""]);
        check("gs://bucket/", Kind::Google, "bucket", &[""]);
        check("az://container/a", Kind::Azure, "container", &["a"]);
        check("abfss://c@a.dfs.core.windows.net/x", Kind::Azure, "c@a.dfs.core.windows.net", &["x"]);
        check("http://h:80/a.parquet", Kind::Http, "h:80", &["a.parquet"]);
        check("https://h/d/a https://h/d/b", Kind::Http, "h", &["d/a", "d/b"]);
        for uri in ["s3:///x", "s3://*/x", "ftp://h/x", "https://h/a?sig=x", "https://h/a https://g/b"] {
            let (scheme, rest) = uri.split_once("://").unwrap();
            assert!(Address::parse(scheme, rest).is_none(), "{uri}");
        }
    }
}
