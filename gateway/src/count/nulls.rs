//! How many nulls columns hold, as far as footers tell.
//!
//! In: a snapshot. Out: for each of its columns the nulls in all files together, where the statistics of every row
//! group say so. Of lists and structures nothing is told: what writers count there differs.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use parquet::file::metadata::ParquetMetaData;

use super::CONCURRENT_FILES;
use super::leaf::plain_leaf;
use crate::dataset::{DatasetError, File, Snapshot, statistics};

/// The nulls of each column; `None` of one that they are not told of.
///
/// # Errors
/// When a footer cannot be read any more.
pub async fn nulls(snapshot: &Snapshot) -> Result<Vec<Option<u64>>, DatasetError> {
    let places = 0..snapshot.schema.fields().len();
    let none = vec![Some(0u64); places.len()];
    let files = stream::iter(&snapshot.files)
        .map(|file| of_file(file, places.len()))
        .buffer_unordered(CONCURRENT_FILES);
    let sum = |sums: Vec<Option<u64>>, found: Vec<Option<u64>>| {
        let both = sums.into_iter().zip(found);
        both.map(|(sum, found)| sum.zip(found).map(|(sum, found)| sum.saturating_add(found))).collect()
    };
    files.try_fold(none, async |sums, found| Ok(sum(sums, found))).await
}

async fn of_file(file: &File, columns: usize) -> Result<Vec<Option<u64>>, DatasetError> {
    let leaves: Vec<Option<usize>> =
        (0..columns).map(|place| plain_leaf(file, place).map(|(leaf, _)| leaf)).collect();
    let wanted: Vec<usize> = leaves.iter().flatten().copied().collect();
    let metadata = statistics(file, &wanted).await?;
    Ok(leaves.into_iter().map(|leaf| of_leaf(&metadata, leaf?)).collect())
}

fn of_leaf(metadata: &ParquetMetaData, leaf: usize) -> Option<u64> {
    let column = metadata.file_metadata().schema_descr().column(leaf);
    if column.max_def_level() == 0 {
        return Some(0);
    }
    let mut groups =
        metadata.row_groups().iter().map(|group| group.column(leaf).statistics()?.null_count_opt());
    groups.try_fold(0u64, |sum, nulls| Some(sum.saturating_add(nulls?)))
}
