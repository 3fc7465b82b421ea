//! Files of many writers, some odd, some broken on purpose: what parquet's own reader makes of them.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::*;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/corpus/parquet-testing");

#[test]
fn every_file_of_others_gives_the_same_rows() {
    for folder in ["data", "bad_data"] {
        let Ok(entries) = fs::read_dir(Path::new(CORPUS).join(folder)) else {
            #[expect(clippy::print_stderr, reason = "whoever reads the output must learn what was not tried")]
            {
                eprintln!("SKIPPED: there is no {CORPUS}, so no file of other writers was decoded");
            }
            return;
        };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|extension| extension == "parquet") {
                compare(&path);
            }
        }
    }
}

/// Every row group, unless the footer itself cannot be read.
fn compare(path: &Path) {
    let file = Bytes::from(fs::read(path).unwrap());
    let footer = || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).ok();
    let Ok(Some(footer)) = catch_unwind(AssertUnwindSafe(footer)) else { return };
    for row_group in 0..footer.metadata().num_row_groups() {
        let wanted = all(&footer, row_group);
        let ours = || drive(Decoder::new(wanted.clone(), 1000)?, &file);
        let theirs = || drive_general(wanted.clone(), 1000, &file);
        let same = match (catch_unwind(AssertUnwindSafe(ours)), catch_unwind(AssertUnwindSafe(theirs))) {
            (Ok(Ok(ours)), Ok(Ok(theirs))) => ours.batches == theirs.batches,
            (Ok(Err(_)), Ok(Err(_))) | (Err(_), Err(_)) => true,
            _ => false,
        };
        assert!(same, "{} is decoded differently, row group {row_group}", path.display());
    }
}
