//! Foreign bytes for pages, of which some rows are wanted.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::Compression;
use parquet::file::properties::WriterVersion;
use penstock_fuzz::fuzz;

use super::skipped::nested;
use super::*;

#[test]
fn fuzz_pages() {
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let file = nested(version, Compression::UNCOMPRESSED, 400);
        let footer = footer(&file, false);
        let chunks = footer.metadata().row_group(0).columns().iter().map(|column| column.byte_range());
        let end = chunks.map(|(start, length)| start + length).max().unwrap() as usize;
        let rows = selection(&[(false, 10), (true, 3), (false, 50), (true, 20)]);
        let wanted = Wanted { rows: Some(rows), ..all(&footer, 0) };
        fuzz("pages", &[file[..end].to_vec()], |bytes| {
            let mut bytes = bytes.to_vec();
            bytes.resize(end, 0);
            let bytes = Bytes::from(bytes);
            let read = || drive(Decoder::new(wanted.clone(), 20).unwrap(), &bytes);
            // Where parquet's own reader panics a stream is refused: what counts is that it comes to an end.
            match catch_unwind(AssertUnwindSafe(read)) {
                Ok(Ok(read)) => {
                    let rows: usize = read.batches.iter().map(RecordBatch::num_rows).sum();
                    assert!(rows <= 23, "{rows}");
                    "rows".to_owned()
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "a panic".to_owned(),
            }
        });
    }
}
