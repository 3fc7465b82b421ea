//! What every lane of a stream reads from.
//!
//! In: a snapshot, columns and the order of an epoch. Out: for positions, the rows of files that lie
//! there, and what a decoder must be told to get them. It reads nothing itself.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection, RowSelector};

use super::cache::{Grid, Key};
use super::decode::Wanted;
use super::hydrate::{hydrate, plain_schema};
use super::need::{Need, decoding_bytes, stored_bytes};
use super::passing::Passing;
use super::share::Share;
use super::shared::{Open, View};
use super::spent::Spent;
use crate::dataset::{File, Projection, Snapshot};
use crate::plan::EpochPlan;

/// A snapshot's columns in the order of one epoch, and the memory to read them in. The share lives as long
/// as anything that reads.
pub(crate) struct Source {
    snapshot: Arc<Snapshot>,
    projection: Projection,
    schema: SchemaRef,
    epoch: EpochPlan,
    passing: Option<Passing>,
    view: View,
    share: Arc<Share>,
    spent: Spent,
}

/// Where positions are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    Lane(u32),
    Remainder,
}

/// Some rows of a row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Index of the file in the snapshot.
    pub(crate) file: usize,
    pub(crate) row_group: usize,
    /// The block's number, and which rows of the row group it is.
    pub(crate) block: usize,
    pub(crate) block_rows: Range<u64>,
    /// Counted from the block's first row; with a filter, from the first that passes.
    pub(crate) rows: Range<u64>,
    /// How many rows of the block are counted so.
    pub(crate) of: u64,
}

impl Source {
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        projection: Projection,
        epoch: EpochPlan,
        passing: Option<Passing>,
        view: View,
        share: Arc<Share>,
    ) -> Self {
        let schema = plain_schema(projection.schema());
        Self { snapshot, projection, schema, epoch, passing, view, share, spent: Spent::default() }
    }

    /// The schema of every batch.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn epoch(&self) -> &EpochPlan {
        &self.epoch
    }

    /// The filter there is, and what passes it.
    pub(crate) fn passing(&self) -> Option<&Passing> {
        self.passing.as_ref()
    }

    pub(crate) fn need(&self) -> &Need {
        self.share.need()
    }

    pub(crate) fn share(&self) -> &Share {
        &self.share
    }

    /// What those who read from it have spent.
    pub(super) fn spent(&self) -> &Spent {
        &self.spent
    }

    /// The rows that lie at the first of some positions, as far as they are of one block.
    pub(crate) fn first_place(&self, area: Area, positions: Range<u64>) -> Option<Place> {
        let found = match area {
            Area::Lane(lane) => self.epoch.locate(lane, positions).next(),
            Area::Remainder => self.epoch.locate_remainder(positions).next(),
        }?;
        let number = found.block as usize;
        let block = &self.snapshot.blocks[number];
        let (file, row_group) = (block.file as usize, block.row_group as usize);
        let of = match &self.passing {
            Some(passing) => passing.counts[number],
            None => block.rows.end - block.rows.start,
        };
        Some(Place { file, row_group, block: number, block_rows: block.rows.clone(), rows: found.rows, of })
    }

    /// The block of a place as streams of this content read it; `chunk_rows` at a time if this one is the first.
    pub(super) fn open(&self, place: &Place, chunk_rows: u64) -> Arc<Open> {
        let block = u32::try_from(place.block).expect("the plan counted its blocks");
        let keys = Key::near(self.view.content, block, chunk_rows);
        self.view.shared.open(keys, Grid { rows: place.of, chunk_rows })
    }

    /// The rows of a place's block from one on, as a decoder or a filter counts them; `None` are all rows.
    pub(super) fn selection(&self, place: &Place, from: u64) -> Option<RowSelection> {
        let before = match &self.passing {
            Some(_) if from == 0 => return None,
            Some(_) => from,
            None => {
                let group = self.file(place).footer.metadata().row_group(place.row_group);
                if from == 0 && u64::try_from(group.num_rows()) == Ok(place.of) {
                    return None;
                }
                place.block_rows.start + from
            }
        };
        let (skip, select) =
            (RowSelector::skip(before as usize), RowSelector::select((place.of - from) as usize));
        Some(RowSelection::from(vec![skip, select]))
    }

    pub(crate) fn file(&self, place: &Place) -> &File {
        &self.snapshot.files[place.file]
    }

    /// What a decoder of those rows must be told.
    pub(crate) fn wanted(&self, place: &Place, rows: Option<RowSelection>) -> Wanted {
        let footer = self.file(place).footer.clone();
        Wanted { columns: self.projection.mask(&footer), footer, row_group: place.row_group, rows }
    }

    /// What is fetched for the block of a place.
    pub(crate) fn stored_bytes(&self, place: &Place) -> u64 {
        self.of_columns(place, stored_bytes)
    }

    /// What decoding the block of a place holds beside the rows.
    pub(crate) fn open_bytes(&self, place: &Place) -> u64 {
        self.of_columns(place, decoding_bytes)
    }

    fn of_columns(
        &self,
        place: &Place,
        bytes: fn(&ArrowReaderMetadata, usize, usize, &Range<u64>) -> u64,
    ) -> u64 {
        let footer = &self.file(place).footer;
        let leaves = self.projection.leaves(footer).into_iter();
        let bytes = leaves.map(|leaf| bytes(footer, place.row_group, leaf, &place.block_rows));
        bytes.fold(0, u64::saturating_add)
    }

    /// What the rows of a place hold once they are decoded, about, and a batch beyond.
    pub(crate) fn decoded_bytes(&self, place: &Place) -> u64 {
        let rows = place.rows.end - place.rows.start;
        rows.saturating_mul(self.need().row_bytes).saturating_add(self.need().batch_bytes)
    }

    /// A decoded batch under [`schema`](Self::schema).
    pub(crate) fn arrange(&self, decoded: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        hydrate(decoded, &self.projection, &self.schema)
    }
}
