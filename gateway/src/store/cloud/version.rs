//! Which version of a file is meant.
//!
//! In: what a listing said of a file. Out: what a request demands of the store, and whether an answer meets
//! it. The promise: a file that was written again is noticed, also where a server gives no entity tags or
//! does not look at those that are demanded.

use object_store::{GetOptions, ObjectMeta};

/// Begins a tag of ours, for files whose server gives none.
const OURS: &str = "penstock:";

/// A demanded version; without a tag any is meant.
#[derive(Debug, Clone, Default)]
pub(super) struct Demand {
    tag: Option<String>,
    pub(super) version: Option<String>,
}

impl Demand {
    pub(super) fn of(options: &GetOptions) -> Self {
        Self { tag: options.if_match.clone(), version: options.version.clone() }
    }

    /// What the store is to compare: a weak tag would never match there (RFC 9110, 13.1.1).
    pub(super) fn to_send(&self) -> Option<String> {
        self.tag.clone().filter(|tag| !tag.starts_with(OURS) && !tag.starts_with("W/"))
    }

    /// What is compared here.
    pub(super) fn is_met_by(&self, meta: &ObjectMeta) -> bool {
        let Some(demanded) = &self.tag else { return true };
        let found = tagged(meta.clone()).e_tag;
        found.as_ref() == Some(demanded)
    }
}

/// With a tag in any case: of time and length where the server gives none, and in quotes, which listings of Azure
/// leave away.
pub(super) fn tagged(mut meta: ObjectMeta) -> ObjectMeta {
    meta.e_tag = Some(match meta.e_tag.take() {
        Some(tag) if tag.ends_with('"') => tag,
        Some(tag) => format!("\"{tag}\""),
        None => format!("{OURS}{:x}-{:x}", meta.last_modified.timestamp_millis(), meta.size),
    });
    meta
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn meta(seconds: u64, tag: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            location: "x".into(),
            last_modified: (UNIX_EPOCH + Duration::from_secs(seconds)).into(),
            size: 7,
            e_tag: tag.map(str::to_owned),
            version: None,
        }
    }

    fn demand(meta: ObjectMeta) -> Demand {
        Demand { tag: tagged(meta).e_tag, version: None }
    }

    #[test]
    fn a_version_is_known_by_its_tag_or_by_its_time() {
        let strong = demand(meta(1, Some("\"a\"")));
        assert_eq!(strong.to_send().as_deref(), Some("\"a\""));
        assert!(strong.is_met_by(&meta(2, Some("\"a\""))));
        assert!(!strong.is_met_by(&meta(1, Some("\"b\""))));
        assert!(!strong.is_met_by(&meta(1, None)));

        let of_a_listing = demand(meta(1, Some("a")));
        assert!(of_a_listing.is_met_by(&meta(1, Some("\"a\""))));

        let weak = demand(meta(1, Some("W/\"a\"")));
        assert_eq!(weak.to_send(), None);
        assert!(weak.is_met_by(&meta(1, Some("W/\"a\""))));

        let none = demand(meta(1, None));
        assert_eq!(none.to_send(), None);
        assert!(none.is_met_by(&meta(1, None)));
        assert!(!none.is_met_by(&meta(2, None)));
        assert!(Demand::default().is_met_by(&meta(1, None)));
    }
}
