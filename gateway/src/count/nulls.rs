//! How many nulls columns hold, as far as footers tell.
//!
//! In: a snapshot. Out: for each of its columns the nulls in all files together, where the statistics of every row
//! group say so. Of lists and structures nothing is told: what writers count there differs.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use parquet::file::metadata::ParquetMetaData;
use penstock_proto::NullsInfo;

use super::CONCURRENT_FILES;
use super::leaf::plain_leaf;
use crate::dataset::{DatasetError, File, Snapshot, statistics};

/// A feed waits for what these tell, and may have thousands more.
const FILES_LOOKED_AT: usize = 32;
const LOOKING: Duration = Duration::from_secs(2);

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

/// Of some columns, by their places, the first file that is told to hold nulls, and how many; only the first files are
/// looked at, and not for long: whoever feeds the others hears of theirs when they come.
pub(crate) async fn told_nulls(snapshot: &Snapshot, places: &[usize]) -> Vec<Option<NullsInfo>> {
    let mut told = vec![None; places.len()];
    let look = async {
        let files = &snapshot.files[..snapshot.files.len().min(FILES_LOOKED_AT)];
        let looks: Vec<_> = files.iter().map(|file| some_of_file(file, places)).collect();
        let mut looks = stream::iter(looks).buffered(CONCURRENT_FILES);
        while let Some((file, found)) = looks.next().await {
            for (told, count) in told.iter_mut().zip(found) {
                if count > 0 && told.is_none() {
                    *told = Some(NullsInfo { file: file.to_string(), count });
                }
            }
        }
    };
    // A store that takes longer has other worries.
    let _in_time = tokio::time::timeout(LOOKING, look).await;
    told
}

/// Nulls of columns as far as they are told; none of a file that cannot be read, which its reader will say.
async fn some_of_file<'a>(file: &'a File, places: &[usize]) -> (&'a File, Vec<u64>) {
    let leaves: Vec<Option<usize>> =
        places.iter().map(|&place| plain_leaf(file, place).map(|(leaf, _)| leaf)).collect();
    let wanted: Vec<usize> = leaves.iter().flatten().copied().collect();
    let Ok(metadata) = statistics(file, &wanted).await else { return (file, vec![0; places.len()]) };
    let of_leaf = |leaf: usize| {
        let groups = metadata.row_groups().iter();
        groups
            .filter_map(|group| group.column(leaf).statistics()?.null_count_opt())
            .fold(0, u64::saturating_add)
    };
    (file, leaves.into_iter().map(|leaf| leaf.map_or(0, of_leaf)).collect())
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
