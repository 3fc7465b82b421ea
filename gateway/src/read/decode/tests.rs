//! The decoder beside parquet's own reader: the same rows, whatever the file.

mod compressed;
mod corpus;
mod corrupt;
mod fuzz;
mod random;
mod skipped;
mod writers;

use arrow::array::ArrayRef;
use arrow::compute::concat_batches;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::RowSelector;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::properties::WriterProperties;

use super::*;

/// A file of these columns.
fn file(columns: Vec<(&str, ArrayRef, bool)>, properties: WriterProperties) -> Bytes {
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    Bytes::from(bytes)
}

fn footer(file: &Bytes, has_index: bool) -> ArrowReaderMetadata {
    let policy = if has_index { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
    ArrowReaderMetadata::load(file, ArrowReaderOptions::new().with_page_index_policy(policy)).unwrap()
}

/// All rows of all columns of a row group.
fn all(footer: &ArrowReaderMetadata, row_group: usize) -> Wanted {
    Wanted { footer: footer.clone(), row_group, columns: ProjectionMask::all(), rows: None }
}

/// What a decoder gave.
struct Read {
    batches: Vec<RecordBatch>,
    /// Whether lists were decoded here to the end.
    own: bool,
    bytes: u64,
}

/// Decodes to the end, with bytes cut from `file` as asked for.
fn drive(mut decoder: Decoder, file: &Bytes) -> Result<Read, ParquetError> {
    let mut read = Read { batches: Vec::new(), own: false, bytes: 0 };
    loop {
        match decoder.next()? {
            Next::Needs(ranges) => {
                let cut = |range: &Range<u64>| {
                    let end = usize::try_from(range.end).unwrap().min(file.len());
                    file.slice(usize::try_from(range.start).unwrap().min(end)..end)
                };
                let bytes = ranges.iter().map(cut).collect();
                read.bytes += ranges.iter().map(|range| range.end - range.start).sum::<u64>();
                decoder.push(ranges, bytes)?;
            }
            Next::Rows(batch) => read.batches.push(batch),
            Next::Done => {
                read.own = matches!(decoder.way, Way::Split(_));
                return Ok(read);
            }
        }
    }
}

/// The same rows through parquet's own reader alone.
fn drive_general(wanted: Wanted, batch_rows: usize, file: &Bytes) -> Result<Read, ParquetError> {
    let general = General::plain(&wanted, wanted.columns.clone(), wanted.rows.clone(), batch_rows)?;
    let way = Way::Whole(general);
    drive(Decoder { wanted, batch_rows, held: Held::default(), way }, file)
}

/// Compares both ways, and says whether lists were decoded here to the end.
fn check(wanted: &Wanted, batch_rows: usize, file: &Bytes) -> bool {
    let ours = drive(Decoder::new(wanted.clone(), batch_rows).unwrap(), file).unwrap();
    let theirs = drive_general(wanted.clone(), batch_rows, file).unwrap();
    assert!(ours.batches.iter().all(|batch| (1..=batch_rows).contains(&batch.num_rows())));
    // Of nested columns all that lies between wanted rows is fetched.
    assert!(
        !ours.own || ours.bytes <= theirs.bytes,
        "{} bytes were fetched instead of {}",
        ours.bytes,
        theirs.bytes
    );
    let Some(schema) = theirs.batches.first().map(RecordBatch::schema) else {
        assert!(ours.batches.is_empty());
        return ours.own;
    };
    let [ours_joined, theirs_joined] =
        [&ours, &theirs].map(|read| concat_batches(&schema, &read.batches).unwrap());
    assert!(ours.batches.iter().all(|batch| batch.schema() == schema));
    for (index, (ours, theirs)) in ours_joined.columns().iter().zip(theirs_joined.columns()).enumerate() {
        // Bits, not numbers: a NaN is itself.
        let (ours, theirs) = (ours.to_data(), theirs.to_data());
        assert!(ours == theirs || bits(&ours) == bits(&theirs), "column {index} differs");
        ours.validate_full().unwrap();
    }
    ours.own
}

/// Everything an array is made of, where it has no nulls.
fn bits(data: &arrow::array::ArrayData) -> Vec<Vec<u8>> {
    let own = data.buffers().iter().map(|buffer| buffer.as_slice().to_vec());
    own.chain(data.child_data().iter().flat_map(bits)).collect()
}

/// Selectors, `true` ones selected.
fn selection(runs: &[(bool, usize)]) -> RowSelection {
    let selectors = runs.iter().map(|&(select, row_count)| RowSelector { row_count, skip: !select });
    selectors.collect::<Vec<_>>().into()
}
