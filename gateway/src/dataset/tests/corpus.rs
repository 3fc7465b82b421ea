//! Files of many writers, some odd, some broken on purpose: a snapshot or a refusal that names the file.

use std::path::Path;

use super::*;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus/parquet-testing");

/// Everything in a folder of the corpus; `None`, said loudly, where there is no corpus.
fn files(folder: &str) -> Option<Vec<PathBuf>> {
    let folder = Path::new(CORPUS).join(folder);
    let Ok(entries) = fs::read_dir(&folder) else {
        #[expect(
            clippy::print_stderr,
            reason = "whoever reads the test's output must learn what was not tried"
        )]
        {
            eprintln!("SKIPPED: there is no {}, so no file of other writers was tried", folder.display());
        }
        return None;
    };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    Some(files)
}

async fn try_file(path: &Path) -> Result<u64, String> {
    let name = path.to_str().unwrap();
    let snapshot = match Dataset::new("corpus", name).unwrap().snapshot().await {
        Ok(snapshot) => snapshot,
        Err(e) => {
            let text = e.to_string();
            let file = path.file_name().unwrap().to_str().unwrap();
            assert!(text.contains(file), "{text} does not name {file}");
            return Err(text);
        }
    };
    let order = crate::plan::tests::order(16, penstock_proto::Shuffle::Rows);
    let location = Location::parse(name).unwrap();
    let inspection = inspect::Inspection::new(&location, &snapshot, order, None).unwrap();
    assert!(inspection.to_string().contains(name));
    Ok(snapshot.rows())
}

#[tokio::test]
async fn every_file_that_is_parquet_makes_a_snapshot() {
    for path in files("data").into_iter().flatten() {
        let is_plain = path.extension().is_some_and(|extension| extension == "parquet");
        match try_file(&path).await {
            Ok(_) => assert!(is_plain, "{} is no plain Parquet", path.display()),
            // Its writer put a field of its own where the format has since put another.
            Err(text) if text.contains("dict-page-offset-zero") => assert!(text.contains("cannot be parsed")),
            Err(text) => assert!(!is_plain, "{text}"),
        }
    }
}

#[tokio::test]
async fn broken_files_break_nothing() {
    for path in files("bad_data").into_iter().flatten() {
        drop(try_file(&path).await);
    }
}
