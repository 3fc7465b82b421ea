//! The generated code is committed; this test says so when it no longer follows from the `.proto` file.
#![allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping")]

use std::path::Path;

/// For what has a JSON form.
const JSON: &str = "#[derive(serde::Serialize, serde::Deserialize)]\n#[serde(default, deny_unknown_fields)]";

#[test]
fn generated_code_follows_from_the_proto_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let descriptors = protox::compile([root.join("penstock.proto")], [root]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new()
        .out_dir(out.path())
        .type_attribute(".penstock.v1.FeedCommand", JSON)
        .type_attribute(".penstock.v1.MixtureComponent", JSON)
        .compile_fds(descriptors)
        .unwrap();
    let fresh = std::fs::read_to_string(out.path().join("penstock.v1.rs")).unwrap();
    let committed = root.join("src/generated/penstock.v1.rs");
    if std::env::var_os("PENSTOCK_REGENERATE").is_some() {
        std::fs::write(&committed, &fresh).unwrap();
    }
    assert!(
        std::fs::read_to_string(&committed).is_ok_and(|text| text == fresh),
        "{} is out of date: run the tests once with PENSTOCK_REGENERATE=1 and commit it",
        committed.display()
    );
}
