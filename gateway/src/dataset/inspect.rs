//! What `penstock inspect` tells of a dataset: a pure report of a snapshot and of the plan an order makes.

use std::fmt;

use arrow::datatypes::{DataType, SchemaRef};
use penstock_proto::{Shuffle, SnapshotId};

use super::{Location, Snapshot};
use crate::count::{Counts, Tally};
use crate::plan::{Order, Plan, PlanError, Quality, RANDOM_DISTANCE};
use crate::read::plain_schema;

/// A dataset in numbers; its `Display` is for people.
#[derive(Debug, Clone)]
pub struct Inspection {
    pub location: Location,
    pub snapshot: SnapshotId,
    pub files: usize,
    pub row_groups: usize,
    pub blocks: usize,
    pub rows: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes of all columns once decoded, estimated.
    pub decoded_bytes: u64,
    pub schema: SchemaRef,
    /// Nulls of each column, where they are known.
    pub nulls: Vec<Option<u64>>,
    /// Columns that not all files have alike, and why they are not fed.
    pub unlike: Vec<(String, String)>,
    /// What each column is fed as, or how it can be, where that is known.
    pub fed_as: Vec<Result<String, String>>,
    /// What a filter passes; order and plan are of these rows.
    pub filtered: Option<Filtered>,
    pub order: Order,
    pub steps: u64,
    pub dropped: u64,
    pub lanes: u32,
    pub window_rows: Option<u64>,
    /// How well the first epoch is shuffled; `None` where nothing is, or no step is whole.
    pub quality: Option<Quality>,
}

/// What a filter passes of a dataset, and how that was found.
#[derive(Debug, Clone)]
pub struct Filtered {
    pub text: String,
    pub counts: Counts,
    pub tally: Tally,
}

impl Inspection {
    /// # Errors
    /// When the order fits no plan of this dataset.
    pub fn new(
        location: &Location,
        snapshot: &Snapshot,
        order: Order,
        filtered: Option<Filtered>,
    ) -> Result<Self, PlanError> {
        let every_column = snapshot.common();
        let shapes = snapshot.block_shapes(&every_column, None);
        let counts = filtered.as_ref().map(|filtered| filtered.counts.rows.as_ref());
        let plan = Plan::new(&snapshot.block_shapes(&every_column, counts), order)?;
        Ok(Self {
            location: location.clone(),
            snapshot: snapshot.id.clone(),
            files: snapshot.files.len(),
            row_groups: snapshot.files.iter().map(|file| file.footer.metadata().num_row_groups()).sum(),
            blocks: snapshot.blocks.len(),
            rows: snapshot.rows(),
            bytes: snapshot.bytes(),
            decoded_bytes: shapes.iter().fold(0, |sum, shape| sum.saturating_add(shape.bytes)),
            schema: snapshot.schema.clone(),
            nulls: Vec::new(),
            unlike: snapshot.refusals().map(|(column, why)| (column.to_owned(), why.to_string())).collect(),
            fed_as: Vec::new(),
            filtered,
            order,
            steps: plan.steps(),
            dropped: plan.dropped(),
            lanes: plan.lanes(),
            window_rows: plan.window_rows(),
            quality: (order.shuffle != Shuffle::None).then(|| plan.quality(0)).flatten(),
        })
    }

    /// Says how many nulls columns hold.
    #[must_use]
    pub fn with_nulls(self, nulls: Vec<Option<u64>>) -> Self {
        Self { nulls, ..self }
    }

    /// Says of every column what it is fed as, or what to do where it cannot be, by the type that a reader of the gateway
    /// gets.
    #[must_use]
    pub fn with_fed_as(mut self, fed_as: impl Fn(&str, &DataType) -> Result<String, String>) -> Self {
        let plain = plain_schema(&self.schema);
        self.fed_as = plain.fields().iter().map(|field| fed_as(field.name(), field.data_type())).collect();
        self
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.location)?;
        writeln!(f, "  snapshot  {}", self.snapshot)?;
        writeln!(f, "  files     {} ({})", self.files, bytes(self.bytes))?;
        writeln!(f, "  blocks    {} of {} row groups", self.blocks, self.row_groups)?;
        writeln!(f, "  rows      {} (about {} decoded)", self.rows, bytes(self.decoded_bytes))?;
        writeln!(f, "  columns")?;
        let width = self.schema.fields().iter().map(|field| field.name().chars().count()).max().unwrap_or(0);
        for (index, field) in self.schema.fields().iter().enumerate() {
            let null = match self.nulls.get(index) {
                Some(Some(0)) => String::new(),
                Some(Some(1)) => ", 1 null".to_owned(),
                Some(Some(nulls)) => format!(", {nulls} nulls"),
                Some(None) | None if field.is_nullable() => ", may be null".to_owned(),
                Some(None) | None => String::new(),
            };
            write!(f, "    {:width$}  {}{null}", field.name(), field.data_type())?;
            match self.fed_as.get(index) {
                None => writeln!(f)?,
                Some(Ok(tensor)) if null.is_empty() => writeln!(f, ": fed as {tensor}")?,
                Some(Ok(tensor)) => writeln!(f, ": fed as {tensor}, its nulls as nulls= says")?,
                Some(Err(advice)) => writeln!(f, ": cannot be fed as it is, {advice}")?,
            }
        }
        for (column, why) in &self.unlike {
            writeln!(f, "    {column:width$}  not alike in all files: {why}")?;
        }
        if let Some(filtered) = &self.filtered {
            filtered.write(f, self.rows)?;
        }
        let Order { batch_size, shuffle, remainder, .. } = self.order;
        write!(f, "  epoch     {} steps of {batch_size} rows", self.steps)?;
        let every_epoch =
            if shuffle != Shuffle::None && self.dropped > 0 { ", others every epoch" } else { "" };
        writeln!(
            f,
            ", shuffle {shuffle}, remainder {remainder} ({} rows left out{every_epoch})",
            self.dropped
        )?;
        write!(f, "  lanes     {}", self.lanes)?;
        match self.window_rows {
            Some(rows) => writeln!(f, ", windows of {rows} rows")?,
            None => writeln!(f)?,
        }
        let Some(Quality { moved, blocks_per_batch, random_blocks_per_batch, autocorrelation }) =
            self.quality
        else {
            return Ok(());
        };
        writeln!(
            f,
            "  shuffled  rows move {:.1} % of the dataset (by chance {:.1} %)",
            100.0 * moved,
            100.0 * RANDOM_DISTANCE
        )?;
        writeln!(
            f,
            "            a batch mixes {blocks_per_batch:.1} blocks (by chance {random_blocks_per_batch:.1})"
        )?;
        writeln!(
            f,
            "            a column sorted through all files has autocorrelation {autocorrelation:.3} (by chance 0)"
        )
    }
}

impl Filtered {
    fn write(&self, f: &mut fmt::Formatter<'_>, of: u64) -> fmt::Result {
        let passing = self.counts.total();
        let share = 100.0 * passing as f64 / of.max(1) as f64;
        writeln!(f, "  filter    {}", self.text)?;
        writeln!(f, "            passes {passing} of {of} rows ({share:.1} %)")?;
        let Tally { none, all, read, decoded } = self.tally;
        writeln!(
            f,
            "            statistics tell of {none} blocks that none passes, of {all} that all do; {read} read, {decoded} rows of them"
        )
    }
}

fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let step = (count.ilog2() / 10).min(UNITS.len() as u32);
    format!("{:.1} {}", count as f64 / (1u64 << (10 * step)) as f64, UNITS[step as usize - 1])
}
