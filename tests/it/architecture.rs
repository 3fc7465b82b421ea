//! Who may know whom. An edge that is not in the table is an architectural change: it comes alone, with
//! its reason, and changes the table.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Package, and those of ours that it may name.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("penstock-proto", &[]),
    ("penstock-daemon", &["penstock-proto"]),
    ("penstock-gateway", &["penstock-proto", "penstock-daemon", "penstock-ring"]),
    ("penstock-ring", &[]),
    ("penstock-sidecar", &["penstock-proto", "penstock-daemon", "penstock-ring"]),
    ("penstock-tf-op", &["penstock-ring"]),
    ("penstock-launcher", &["penstock-proto", "penstock-daemon"]),
    ("penstock-fuzz", &[]),
    (
        "penstock",
        &["penstock-proto", "penstock-daemon", "penstock-gateway", "penstock-sidecar", "penstock-launcher"],
    ),
];

/// What a package must not name whatever else it does.
const NEVER: &[(&str, &[&str])] = &[
    ("penstock-proto", &["arrow", "tokio", "parquet"]),
    ("penstock-daemon", &["arrow", "parquet"]),
    ("penstock-ring", &["arrow", "tokio", "tonic"]),
    ("penstock-tf-op", &["arrow", "tokio", "tonic"]),
    ("penstock-launcher", &["arrow", "parquet", "arrow-flight"]),
    ("penstock-sidecar", &["parquet", "object_store"]),
];

/// Tests and benches may know everybody.
const KNOW_ALL: &[&str] = &["penstock-tests", "penstock-benches"];

#[test]
fn packages_know_only_whom_they_may() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let ours: BTreeSet<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let may_know: BTreeMap<_, _> = MAY_KNOW.iter().copied().collect();
    let never: BTreeMap<_, _> = NEVER.iter().copied().collect();

    for package in &metadata.packages {
        let name = package.name.as_str();
        if KNOW_ALL.contains(&name) {
            continue;
        }
        let Some(allowed) = may_know.get(name) else {
            panic!("{name} has no row in the table of who may know whom");
        };
        let named: BTreeSet<&str> = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind == DependencyKind::Normal)
            .map(|dependency| dependency.name.as_str())
            .collect();
        for other in named.intersection(&ours) {
            assert!(allowed.contains(other), "{name} must not know {other}");
        }
        for other in never.get(name).copied().unwrap_or_default() {
            assert!(!named.contains(other), "{name} must not know {other}");
        }
    }
}

#[test]
fn there_is_one_arrow() {
    let metadata = MetadataCommand::new().exec().unwrap();
    for name in ["arrow-array", "parquet", "object_store", "tonic", "prost"] {
        let versions: BTreeSet<_> = metadata
            .packages
            .iter()
            .filter(|package| package.name == name)
            .map(|package| &package.version)
            .collect();
        assert_eq!(versions.len(), 1, "{name} is in the tree as {versions:?}");
    }
}

#[test]
fn the_top_level_is_the_plan_of_the_house() {
    let root = MetadataCommand::new().no_deps().exec().unwrap().workspace_root;
    let tracked = std::process::Command::new("git").args(["ls-files"]).current_dir(&root).output().unwrap();
    let tracked = String::from_utf8(tracked.stdout).unwrap();
    let top: BTreeSet<&str> = tracked.lines().filter_map(|path| path.split('/').next()).collect();
    let expected = BTreeSet::from([
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE",
        "Makefile",
        "README.md",
        "benches",
        "gateway",
        "launcher",
        "proto",
        "tests",
        "trainer-sidecar",
    ]);
    let strangers: Vec<_> =
        top.iter().filter(|name| !name.starts_with('.') && !expected.contains(*name)).collect();
    assert!(strangers.is_empty(), "{strangers:?} belong in one of the rooms");
}
