//! Rows of a row group, looked at a batch at a time and not kept.
//!
//! In: a file, some of its columns, rows of a row group. Out: what whoever looks makes of them. The promise: only
//! these columns are fetched and decoded, on the CPU pool, and what cannot be decoded is named. It knows no order.

use arrow::array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::RowSelection;
use parquet::errors::ParquetError;

use super::decode::{Decoder, Next, Wanted, by_column};
use super::{ReadError, cpu, fetch};
use crate::dataset::{File, decoded_bytes};

/// Rows decoded at once: their columns stay in the processor's caches until they are looked at.
const BATCH_ROWS: u64 = 16 << 10;
/// Bytes of them, unless a single row has more.
const BATCH_BYTES: u64 = 2 << 20;

/// Looks at rows of some columns, and returns what `made` has become.
pub(crate) async fn scan<T: Send + 'static>(
    file: &File,
    row_group: usize,
    columns: ProjectionMask,
    rows: RowSelection,
    made: T,
    look: impl Fn(&mut T, &RecordBatch) -> Result<(), ReadError> + Clone + Send + 'static,
) -> Result<T, ReadError> {
    let wanted = Wanted { footer: file.footer.clone(), row_group, columns, rows: Some(rows) };
    match looked_at(file, wanted.clone(), made, look).await {
        Ok(made) => Ok(made),
        Err(Broken::Elsewhere(error)) => Err(error),
        Err(Broken::Page(error)) => Err(blame(file, &wanted, error).await),
    }
}

/// What stands in the way of the rows.
enum Broken {
    /// What is decoded.
    Page(ParquetError),
    /// Something that says itself what.
    Elsewhere(ReadError),
}

async fn looked_at<T: Send + 'static>(
    file: &File,
    wanted: Wanted,
    mut made: T,
    look: impl Fn(&mut T, &RecordBatch) -> Result<(), ReadError> + Clone + Send + 'static,
) -> Result<T, Broken> {
    // A decoder falls over what is garbled.
    let fell = |panic: cpu::Panicked| Broken::Page(ParquetError::General(panic.0));
    let batch_rows = batch_rows(&wanted);
    let decoder = cpu::run(move || Decoder::new(wanted, batch_rows)).await.map_err(fell)?;
    let mut decoder = decoder.map_err(Broken::Page)?;
    loop {
        let look = look.clone();
        let job = cpu::run(move || {
            let needed = loop {
                match decoder.next() {
                    Ok(Next::Needs(ranges)) => break Ok(Some(ranges)),
                    Ok(Next::Done) => break Ok(None),
                    Ok(Next::Rows(batch)) => {
                        if let Err(error) = look(&mut made, &batch) {
                            break Err(Broken::Elsewhere(error));
                        }
                    }
                    Err(error) => break Err(Broken::Page(error)),
                }
            };
            (decoder, made, needed)
        });
        let needed;
        (decoder, made, needed) = job.await.map_err(fell)?;
        match needed? {
            Some(ranges) => {
                let bytes = fetch(file, &ranges).await.map_err(Broken::Elsewhere)?;
                decoder.push(ranges, bytes).map_err(Broken::Page)?;
            }
            None => return Ok(made),
        }
    }
}

/// Rows of a batch, by what the footer tells of them.
fn batch_rows(wanted: &Wanted) -> usize {
    let group = wanted.footer.metadata().row_group(wanted.row_group);
    let leaves: Vec<usize> =
        (0..group.num_columns()).filter(|&leaf| wanted.columns.leaf_included(leaf)).collect();
    let rows = u64::try_from(group.num_rows()).unwrap_or(0).max(1);
    let row_bytes = decoded_bytes(group, &leaves).div_ceil(rows).max(1);
    (BATCH_BYTES / row_bytes).clamp(1, BATCH_ROWS) as usize
}

/// Finds the column that cannot be decoded by decoding each alone.
async fn blame(file: &File, wanted: &Wanted, error: ParquetError) -> ReadError {
    for (column, alone) in by_column(wanted) {
        match looked_at(file, alone, (), |(), _| Ok(())).await {
            Ok(()) => {}
            Err(Broken::Page(error)) => {
                return ReadError::decode(file.to_string(), wanted.row_group, Some(column), error);
            }
            Err(Broken::Elsewhere(error)) => return error,
        }
    }
    ReadError::decode(file.to_string(), wanted.row_group, None, error)
}
