//! Listing a store's directories.
//!
//! In: a store, and a path or pattern in it. Out: what [`list`](super::list) gives of a disk, by the same
//! rules. A directory that no match can lie below is not looked into.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use glob::Pattern;
use object_store::path::Path;
use object_store::{Error, ListResult, ObjectMeta, ObjectStore, ObjectStoreExt as _};

use super::{Found, MATCHING, base_of, has_parquet_name, is_passed_over, without_stars};
use crate::dataset::DatasetError;

/// Directories listed at once: enough to hide a round trip, few enough for a name server that others ask too.
const CONCURRENT_LISTINGS: usize = 16;

/// Lists a path or pattern, sorted by name. `root` is what locations are shown below; a store that is `flat` has
/// no directories but in names, and lists all below a name at once.
pub(in crate::dataset) async fn list(
    store: &dyn ObjectStore,
    root: &str,
    path: &str,
    flat: bool,
) -> Result<Vec<Found>, DatasetError> {
    let walk = Walk { store, root, flat };
    let text = without_stars(path);
    let shown = || walk.shown(text.trim_start_matches('/'));
    let location = Path::parse(text).map_err(|_| DatasetError::Name { path: shown().into() })?;
    // A path that exists is meant as it stands, brackets and all.
    let found = match store.head(&location).await {
        Ok(meta) => {
            let parent = text.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
            let parent = Path::parse(parent).map_err(|_| DatasetError::Name { path: shown().into() })?;
            vec![found(meta, &parent)]
        }
        Err(Error::NotFound { .. }) if base_of(text).is_none() => walk.below(location, None).await?,
        Err(Error::NotFound { .. }) => match walk.level(&location).await {
            Ok(level) if !is_empty(&level) => walk.below(location, None).await?,
            Ok(_) | Err(Error::NotFound { .. }) => {
                let (base, rest) =
                    base_of(text).ok_or_else(|| DatasetError::NoSuchPath { path: shown().into() })?;
                walk.pattern(base, rest).await?
            }
            Err(source) => return Err(DatasetError::ListStore { place: shown(), source: source.into() }),
        },
        Err(source) => return Err(DatasetError::ListStore { place: shown(), source: source.into() }),
    };
    if found.is_empty() {
        return Err(DatasetError::NoFiles { location: walk.shown(path.trim_start_matches('/')) });
    }
    Ok(found)
}

/// Looks at files that are named one by one. What they are named below is the directory that they have in common.
#[cfg(feature = "cloud")]
pub(in crate::dataset) async fn named(
    store: &dyn ObjectStore,
    root: &str,
    paths: &[String],
) -> Result<Vec<Found>, DatasetError> {
    let shown = |path: &str| format!("{root}{path}");
    let common = paths.iter().map(|path| path.rsplit_once('/').map_or("", |(parent, _)| parent));
    let common = common.reduce(common_directory).unwrap_or_default();
    let named = |path: &str| Path::parse(path).map_err(|_| DatasetError::Name { path: shown(path).into() });
    let common = named(common)?;
    let looks: Vec<_> = paths
        .iter()
        .map(|path| async {
            match store.head(&named(path)?).await {
                Ok(meta) => Ok(found(meta, &common)),
                Err(Error::NotFound { .. }) => Err(DatasetError::NoSuchPath { path: shown(path).into() }),
                Err(source) => Err(DatasetError::ListStore { place: shown(path), source: source.into() }),
            }
        })
        .collect();
    let found: Vec<_> = futures::stream::iter(looks).buffered(CONCURRENT_LISTINGS).try_collect().await?;
    let sorted: BTreeMap<_, _> = found.into_iter().map(|found| (found.name.clone(), found)).collect();
    Ok(sorted.into_values().collect())
}

/// As many whole parts as both begin with.
#[cfg(feature = "cloud")]
fn common_directory<'a>(one: &'a str, other: &str) -> &'a str {
    let mut length = 0;
    for (part, theirs) in one.split('/').zip(other.split('/')) {
        if part != theirs {
            break;
        }
        length += part.len() + 1;
    }
    &one[..length.saturating_sub(1).min(one.len())]
}

struct Walk<'a> {
    store: &'a dyn ObjectStore,
    root: &'a str,
    flat: bool,
}

/// A pattern below a root: as a whole, and for each level of directories.
struct Wanted {
    whole: Pattern,
    parts: Vec<Pattern>,
}

struct Directory {
    location: Path,
    /// Whether all Parquet below it is meant, for it or one above matched.
    is_meant: bool,
}

impl Walk<'_> {
    async fn pattern(&self, base: &str, rest: &str) -> Result<Vec<Found>, DatasetError> {
        let shown = || self.shown(base.trim_start_matches('/'));
        let unreadable = |source| DatasetError::Pattern { uri: format!("{}{rest}", shown()), source };
        let wanted = Wanted {
            whole: Pattern::new(rest).map_err(unreadable)?,
            parts: rest.split('/').map(Pattern::new).collect::<Result<_, _>>().map_err(unreadable)?,
        };
        let base = Path::parse(base).map_err(|_| DatasetError::Name { path: shown().into() })?;
        self.below(base, Some(wanted)).await
    }

    /// What is meant below a directory: what matches, or without a pattern all Parquet.
    async fn below(&self, root: Path, wanted: Option<Wanted>) -> Result<Vec<Found>, DatasetError> {
        let mut files = BTreeMap::new();
        let mut directories = vec![Directory { location: root.clone(), is_meant: wanted.is_none() }];
        while !directories.is_empty() {
            let looks: Vec<_> =
                directories.into_iter().map(|directory| self.look(directory, &root)).collect();
            let levels: Vec<_> =
                futures::stream::iter(looks).buffered(CONCURRENT_LISTINGS).try_collect().await?;
            directories = Vec::new();
            for (level, is_meant) in levels {
                let matches =
                    |name: &str| wanted.as_ref().is_some_and(|w| w.whole.matches_with(name, MATCHING));
                for meta in level.objects {
                    let found = found(meta, &root);
                    let is_meant = (is_meant && has_parquet_name(&found.name)) || matches(&found.name);
                    if is_meant && !is_passed_over(&found.name) {
                        files.insert(found.name.clone(), found);
                    }
                }
                for location in level.common_prefixes {
                    let name = below(&location, &root);
                    let is_meant = is_meant || matches(name);
                    let leads = is_meant || wanted.as_ref().is_some_and(|wanted| wanted.leads_below(name));
                    if leads && !is_passed_over(name) {
                        directories.push(Directory { location, is_meant });
                    }
                }
            }
        }
        Ok(files.into_values().collect())
    }

    async fn look(&self, directory: Directory, root: &Path) -> Result<(ListResult, bool), DatasetError> {
        let looked = match self.flat && directory.is_meant {
            true => self.all_below(&directory.location).await,
            false => self.level(&directory.location).await,
        };
        match looked {
            Ok(level) => Ok((level, directory.is_meant)),
            Err(Error::NotFound { .. }) if directory.location == *root => {
                Err(DatasetError::NoSuchPath { path: self.shown(root.as_ref()).into() })
            }
            Err(source) => Err(DatasetError::ListStore {
                place: self.shown(directory.location.as_ref()),
                source: source.into(),
            }),
        }
    }

    async fn level(&self, directory: &Path) -> object_store::Result<ListResult> {
        self.store.list_with_delimiter(Some(directory)).await
    }

    /// As if all were one directory.
    async fn all_below(&self, directory: &Path) -> object_store::Result<ListResult> {
        let objects = self.store.list(Some(directory)).try_collect().await?;
        Ok(ListResult { common_prefixes: Vec::new(), objects, extensions: Default::default() })
    }

    fn shown(&self, location: &str) -> String {
        format!("{}{location}", self.root)
    }
}

impl Wanted {
    /// Whether a match can lie below a directory of that name.
    fn leads_below(&self, name: &str) -> bool {
        let mut parts = self.parts.iter();
        for level in name.split('/') {
            match parts.next() {
                Some(part) if part.as_str() == "**" => return true,
                Some(part) if part.matches_with(level, MATCHING) => {}
                _ => return false,
            }
        }
        parts.next().is_some()
    }
}

fn found(meta: ObjectMeta, root: &Path) -> Found {
    let version = meta.e_tag.clone().unwrap_or_else(|| meta.last_modified.to_rfc3339());
    Found { name: below(&meta.location, root).to_owned(), meta, version }
}

fn below<'a>(location: &'a Path, root: &Path) -> &'a str {
    let location = location.as_ref();
    location.strip_prefix(root.as_ref()).unwrap_or(location).trim_start_matches('/')
}

fn is_empty(level: &ListResult) -> bool {
    level.objects.is_empty() && level.common_prefixes.is_empty()
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    async fn store(files: &[&str]) -> InMemory {
        let store = InMemory::new();
        for file in files {
            store.put(&Path::parse(file).unwrap(), "x".into()).await.unwrap();
        }
        store
    }

    const TREE: &[&str] = &[
        "data/a.parquet",
        "data/b.csv",
        "data/_temporary/c.parquet",
        "data/.hidden.parquet",
        "data/day=1/d.parquet",
        "data/day=2/e.parquet",
        "data/day=2/deep/f.parquet",
        "data/_part=3/g.parq",
        "other/[x]/h.parquet",
    ];

    async fn names(path: &str, flat: bool) -> Vec<String> {
        let store = store(TREE).await;
        let found = list(&store, "test://c/", path, flat).await.unwrap();
        found.into_iter().map(|found| found.name).collect()
    }

    /// The same tree on disk gives the same names.
    #[tokio::test]
    async fn a_store_is_listed_as_a_disk_is() {
        let disk = tempfile::tempdir().unwrap();
        for file in TREE {
            let path = disk.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        for path in [
            "/data",
            "/data/",
            "/data/**",
            "/data/a.parquet",
            "/data/_temporary",
            "/data/*.parquet",
            "/data/*",
            "/data/day=*",
            "/data/day=?/*.parquet",
            "/data/**/*.parquet",
            "/d*/day=2/**/f*",
            "/data/day=[2-9]",
            "/other/[x]",
            "/*/*/h.parquet",
        ] {
            let on_disk = format!("{}{path}", disk.path().display());
            let local = crate::dataset::listing::list(&on_disk).unwrap();
            let local: Vec<_> = local.into_iter().map(|found| found.name).collect();
            for flat in [false, true] {
                assert_eq!(names(path, flat).await, local, "{path}, flat: {flat}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_not_there_is_said() {
        let store = store(TREE).await;
        for (path, said) in [
            ("/data/z*.parquet", "no Parquet file in test://c/data/z*.parquet"),
            ("/data/_temporary/**/x", "no Parquet file"),
            ("/data/day[", "is not a readable pattern"),
            ("/data/../x", "not a path"),
        ] {
            let text = list(&store, "test://c/", path, false).await.unwrap_err().to_string();
            assert!(text.contains(said), "{text}");
        }
    }
}
