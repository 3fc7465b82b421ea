//! Paths, directories and patterns.

use std::os::unix::fs::symlink;

use super::*;

fn tree() -> Directory {
    let directory = Directory::new();
    for (name, id) in [
        ("day=2/part-0.parquet", 0),
        ("day=1/part-1.parquet", 1),
        ("day=1/part-0.PARQUET", 2),
        ("day=1/_temporary/part-9.parquet", 90),
        ("day=1/.hidden.parquet", 91),
        ("_delta_log/00.checkpoint.parquet", 92),
        ("_day=3/part-0.parquet", 3),
    ] {
        directory.write_ids(name, id..id + 1);
    }
    for name in ["_SUCCESS", "README.md", "day=1/part-1.parquet.crc"] {
        fs::write(directory.path(name), "not Parquet").unwrap();
    }
    directory
}

#[tokio::test]
async fn a_directory_is_searched_and_sorted() {
    let directory = tree();
    let all =
        ["_day=3/part-0.parquet", "day=1/part-0.PARQUET", "day=1/part-1.parquet", "day=2/part-0.parquet"];
    assert_eq!(names(&directory.snapshot("").await.unwrap()), all);
    assert_eq!(names(&directory.snapshot("day=2").await.unwrap()), ["part-0.parquet"]);
    // What is named outright is meant.
    assert_eq!(names(&directory.snapshot("_delta_log").await.unwrap()), ["00.checkpoint.parquet"]);
    assert_eq!(names(&directory.snapshot("day=1/.hidden.parquet").await.unwrap()), [".hidden.parquet"]);
    let uri = format!("file://{}", directory.uri("day=2"));
    let dataset = Dataset::new("test", &uri).unwrap();
    assert_eq!(names(&dataset.snapshot().await.unwrap()), ["part-0.parquet"]);
}

#[tokio::test]
async fn a_pattern_matches_files_and_directories() {
    let directory = tree();
    for (pattern, expected) in [
        ("day=*/part-0.*", &["day=1/part-0.PARQUET", "day=2/part-0.parquet"][..]),
        ("day=?/*.parquet", &["day=1/part-1.parquet", "day=2/part-0.parquet"]),
        ("day=[12]", &["day=1/part-0.PARQUET", "day=1/part-1.parquet", "day=2/part-0.parquet"]),
        ("**/*.parquet", &["_day=3/part-0.parquet", "day=1/part-1.parquet", "day=2/part-0.parquet"]),
        // Directories and what lies in them, but nothing twice.
        ("day=1/**", &["part-0.PARQUET", "part-1.parquet"]),
    ] {
        let snapshot = directory.snapshot(pattern).await;
        assert_eq!(names(&snapshot.unwrap()), expected, "{pattern}");
    }
}

#[tokio::test]
async fn places_that_are_listed_are_one_dataset_in_their_order() {
    let directory = tree();
    let several = |places: &[&str]| {
        let uris: Vec<_> = places.iter().map(|place| format!("file://{}", directory.uri(place))).collect();
        Dataset::new("test", &uris.join(" ")).unwrap()
    };
    let dataset = several(&["day=2/*.parquet", "day=1/part-1.parquet", "_day=3"]);
    let snapshot = dataset.snapshot().await.unwrap();
    assert_eq!(names(&snapshot), ["000000/part-0.parquet", "000001/part-1.parquet", "000002/part-0.parquet"]);
    assert!(Arc::ptr_eq(&snapshot, &dataset.snapshot().await.unwrap()), "nothing changed");
    for (nothing, told) in
        [("day=3/*.parquet", "there is no "), ("day=1/_temporary/x*", "no Parquet file in ")]
    {
        let text = several(&["day=2", "day=1", nothing]).snapshot().await.map(drop).unwrap_err().to_string();
        let place = directory.uri(nothing.split('*').next().unwrap().trim_end_matches('/'));
        assert!(text.contains(&format!("{told}{place}")), "{text}");
    }
    let twice =
        several(&["day=1", "day=1/part-1.parquet"]).snapshot().await.map(drop).unwrap_err().to_string();
    assert!(twice.contains("day=1/part-1.parquet is named twice"), "{twice}");
}

#[tokio::test]
async fn a_name_with_brackets_is_a_name_if_it_is_there() {
    let directory = Directory::new();
    directory.write_ids("data[1]/a.parquet", 0..1);
    directory.write_ids("data1/b.parquet", 1..2);
    assert_eq!(names(&directory.snapshot("data[1]").await.unwrap()), ["a.parquet"]);
    assert_eq!(names(&directory.snapshot("data[1]/*.parquet").await.unwrap()), ["data1/b.parquet"]);
    assert_eq!(names(&directory.snapshot("data[[]1]/*").await.unwrap()), ["data[1]/a.parquet"]);
}

#[tokio::test]
async fn links_are_followed_but_not_in_circles() {
    let (directory, other) = (Directory::new(), Directory::new());
    directory.write_ids("x/a.parquet", 0..1);
    other.write_ids("b.parquet", 1..2);
    symlink(other.path(""), directory.path("x/linked")).unwrap();
    symlink(directory.path("x"), directory.path("x/again")).unwrap();
    symlink("nowhere", directory.path("x/dangling")).unwrap();
    assert_eq!(names(&directory.snapshot("x").await.unwrap()), ["a.parquet", "linked/b.parquet"]);

    symlink("nowhere", directory.path("x/dangling.parquet")).unwrap();
    let text = directory.refusal("x").await;
    assert!(text.contains("cannot list") && text.contains("dangling.parquet"), "{text}");
}

#[tokio::test]
async fn nothing_there_is_said_in_a_line() {
    let directory = Directory::new();
    directory.write_ids("data/a.parquet", 0..1);
    fs::create_dir(directory.path("empty")).unwrap();
    for (below, expected) in [
        ("dta", "there is no "),
        ("dta/*.parquet", "there is no "),
        ("data/*.parq", "no Parquet file in "),
        ("empty", "no Parquet file in "),
        ("data/[", "is not a readable pattern"),
    ] {
        let text = directory.refusal(below).await;
        assert!(text.contains(expected), "{text}");
    }
}

/// Control characters, backslashes and all that stores give a meaning of their own.
#[tokio::test]
async fn odd_names_are_read_and_are_told_in_one_line() {
    let odd = [
        "a\nb.parquet",
        r"a\nb.parquet",
        "c\u{1b}[31m.parquet",
        "d#1.parquet#2",
        "e%20 [f]?.parquet",
        "g\u{85}ä.parquet",
    ];
    let directory = Directory::new();
    for (name, id) in odd.iter().zip(0..) {
        directory.write_ids(&format!("x\ty/{name}"), id..id + 1);
    }
    let snapshot = directory.snapshot("x\ty/*").await.unwrap();
    assert_eq!(names(&snapshot), odd);
    let mut shown: Vec<String> = snapshot.files.iter().map(ToString::to_string).collect();
    assert!(shown.iter().all(|name| !name.contains(char::is_control)), "{shown:?}");
    assert!(
        shown[0].ends_with(r"/x\ty/a\nb.parquet") && shown[1].ends_with(r"/x\ty/a\\nb.parquet"),
        "{shown:?}"
    );
    shown.dedup();
    assert_eq!(shown.len(), odd.len(), "no two are called alike");
    for file in &snapshot.files {
        assert_eq!(file.store.head(&file.meta.location).await.unwrap(), file.meta);
    }
    for below in ["x\ty/none\n.parquet", "x\ty/*\n", "x\ny/*"] {
        let text = directory.refusal(below).await;
        assert!(!text.contains(char::is_control) && text.contains(r"\n"), "{text}");
    }
    fs::write(directory.path("x\ty/a\nb.parquet"), "not Parquet").unwrap();
    let text = directory.refusal("x\ty").await;
    assert!(text.contains(r"/x\ty/a\nb.parquet is not a whole Parquet file"), "{text}");
}
