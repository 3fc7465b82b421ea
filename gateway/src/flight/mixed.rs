//! What a mixture means for its datasets as they are.
//!
//! In: a request that names several datasets, whose own values are in order. Out: a plan of its own for each, and
//! the plan of the whole, or a refusal that says which dataset or value to change. The promise: the same request
//! over the same snapshots gives the same plan in every gateway of a fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use penstock_proto::{
    Code, ComponentInfo, Error, Feed, FeedInfo, FeedRequest, Mixture, OrderRules, Rank, SnapshotId, mixture,
};

use super::Gateway;
use super::plans::Planned;
use super::resolve::{check_rules, check_start};
use crate::dataset::Snapshot;
use crate::partition::{Partition, share_of};
use crate::plan::{BatchTooSmall, MixturePlan, Quotas, component_seed};
use crate::read::{MixedSteps, Need, ReadError, Share, part_rows, plain_schema};

/// A request over the snapshots of its datasets.
pub(super) struct Mixed {
    /// With lanes and snapshot said.
    pub(super) request: FeedRequest,
    pub(super) plan: Arc<MixturePlan>,
    /// The schema of the streams.
    pub(super) schema: SchemaRef,
    components: Vec<Component>,
}

/// A dataset of the mixture.
struct Component {
    dataset: String,
    planned: Arc<Planned>,
}

/// What a rank has of a component.
struct Portion<'a> {
    /// The component's number in the mixture.
    number: usize,
    planned: &'a Planned,
    partition: Partition,
    /// Bytes of the rank's rows of a step, about.
    step_bytes: u64,
}

impl Gateway {
    /// Plans every dataset of a mixture, and the whole.
    pub(super) async fn mix(&self, mut request: FeedRequest, mixture: Mixture) -> Result<Mixed, Error> {
        let Mixture { components: asked, exhausted } = mixture;
        let weights: Vec<f64> = asked.iter().map(|component| component.weight.get()).collect();
        let quotas = Quotas::new(&weights, request.feed.batch_size)
            .map_err(|refused| too_small(&asked, request.feed.batch_size, refused))?;
        let ids = snapshots(request.snapshot.as_ref(), asked.len())?;

        let mut components: Vec<Component> = Vec::with_capacity(asked.len());
        for ((mixture::Component { dataset, .. }, id), &quota) in asked.into_iter().zip(ids).zip(quotas.get())
        {
            let snapshot = self.catalog.snapshot(&dataset, id.as_ref()).await?;
            let mut feed = component_feed(&request.feed, &dataset, quota);
            if let Some(first) =
                components.first().filter(|_| feed.columns.is_empty() && feed.select.is_empty())
            {
                snapshot.project(&[]).map_err(|e| of_dataset(&dataset, &Error::chain(e.code(), &e)))?;
                feed.columns = columns_of(first, &dataset, &snapshot)?;
            }
            let planned = self.plans.plan(&snapshot, &feed).await.map_err(|e| of_dataset(&dataset, &e))?;
            if planned.plan.steps() == 0 {
                let rows = planned.plan.rows();
                let message = format!(
                    "dataset {dataset:?} of the mixture has {rows} rows, and every global batch takes {quota} of it: \
                     lower batch_size or its weight, or leave it out"
                );
                return Err(Error::new(Code::InvalidFeed, message));
            }
            components.push(Component { dataset, planned });
        }

        let steps = components.iter().map(|component| component.planned.plan.steps()).collect();
        let plan = Arc::new(MixturePlan::new(quotas, steps, exhausted));
        check_start(&request, plan.steps())?;
        let lanes = components.iter().map(|component| component.planned.plan.lanes()).sum();
        if let Some(asked) = request.feed.lanes.filter(|&asked| asked != lanes) {
            let message = format!(
                "lanes is {asked}, but the lanes of a mixture follow from its datasets, {lanes} here: leave lanes out"
            );
            return Err(Error::new(Code::InvalidFeed, message));
        }
        let rules = rules(&components);
        check_rules(&request, rules)?;
        request.order_rules = Some(rules);
        request.feed.lanes = Some(lanes);
        let ids = components.iter().map(|component| &component.planned.snapshot.id);
        request.snapshot = Some(SnapshotId::join(ids));
        let schema = common_schema(&components)?;
        Ok(Mixed { request, plan, schema, components })
    }
}

impl Mixed {
    /// Rows that a rank gets from a step on.
    pub(super) fn rows_from(&self, rank: Rank, step: u64) -> u64 {
        let share = self.share(rank);
        self.plan.steps().saturating_sub(step).saturating_mul(share.end - share.start)
    }

    /// Bytes of so many rows, about.
    pub(super) fn bytes_of(&self, rows: u64) -> u64 {
        let parts = self.components.iter().zip(self.plan.quotas().get());
        let batch =
            parts.map(|(component, &quota)| u128::from(component.planned.row_bytes()) * u128::from(quota));
        let bytes = batch.sum::<u128>().saturating_mul(rows.into());
        u64::try_from(bytes / u128::from(self.request.feed.batch_size)).unwrap_or(u64::MAX)
    }

    /// What was counted of all of them; a filter is one of all.
    pub(super) fn counts(&self) -> Option<String> {
        let counts: Option<Vec<&str>> =
            self.components.iter().map(|component| component.planned.counts.as_deref()).collect();
        counts.map(|counts| counts.join("+"))
    }

    pub(super) fn info(&self) -> FeedInfo {
        let told = |(Component { dataset, planned }, &rows_per_batch): (&Component, &u64)| ComponentInfo {
            dataset: dataset.clone(),
            rows: planned.plan.rows(),
            rows_per_batch,
            steps: planned.plan.steps(),
        };
        FeedInfo {
            snapshot: SnapshotId::join(
                self.components.iter().map(|component| &component.planned.snapshot.id),
            ),
            steps: self.plan.steps(),
            rows: self.components.iter().map(|component| component.planned.plan.rows()).sum(),
            dropped: self.components.iter().map(|component| component.planned.plan.dropped()).sum(),
            lanes: self.components.iter().map(|component| component.planned.plan.lanes()).sum(),
            order_rules: rules(&self.components),
            mixture: self.components.iter().zip(self.plan.quotas().get()).map(told).collect(),
            vocabularies: BTreeMap::new(),
            nulls: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// Bytes of a rank's rows of a step, about.
    pub(super) fn step_bytes(&self, rank: Rank) -> u64 {
        bytes_of_step(&self.portions(rank))
    }

    /// What a rank's stream must hold, for every component that it reads.
    pub(super) fn needs(&self, rank: Rank, part_bytes: u64) -> Vec<Need> {
        let portions = self.portions(rank);
        let lanes: u64 = portions.iter().map(|portion| portion.partition.lanes().len() as u64).sum();
        let step_bytes = bytes_of_step(&portions);
        let need = |portion: &Portion<'_>| {
            let Planned { plan, decoded_bytes, block_bytes, .. } = portion.planned;
            let own = u128::from(part_bytes) * u128::from(portion.step_bytes) / u128::from(step_bytes);
            let beside = lanes - portion.partition.lanes().len() as u64;
            Need::new(*decoded_bytes, block_bytes, plan, &portion.partition, own as u64, beside)
        };
        portions.iter().map(need).collect()
    }

    /// A rank's walk, in what was leased for its [`needs`](Self::needs).
    pub(super) async fn walk(
        self,
        rank: Rank,
        shares: Vec<Share>,
        part_bytes: u64,
    ) -> Result<MixedSteps, ReadError> {
        let share = self.share(rank);
        let portions = self.portions(rank);
        let part_rows = part_rows(share.end - share.start, bytes_of_step(&portions), part_bytes);
        let readings = portions.into_iter().zip(shares);
        let readings = readings.map(|(Portion { number, planned, partition, .. }, share)| {
            (number, planned.reading(partition, share))
        });
        let (plan, schema) = (Arc::clone(&self.plan), Arc::clone(&self.schema));
        let begin = (self.request.epoch, self.request.start_step);
        MixedSteps::open(plan, share, schema, part_rows, readings.collect(), begin).await
    }

    /// A rank's positions in every global batch.
    fn share(&self, rank: Rank) -> Range<u64> {
        share_of(self.request.feed.batch_size, self.request.world_size, rank)
    }

    /// What a rank reads: of a component with few rows in a batch some ranks have none.
    fn portions(&self, rank: Rank) -> Vec<Portion<'_>> {
        let share = self.share(rank);
        let (first, behind) = (self.plan.quotas().before(share.start), self.plan.quotas().before(share.end));
        let own = first.into_iter().zip(behind).map(|(first, behind)| first..behind);
        let components = self.components.iter().zip(own).enumerate().filter(|(_, (_, own))| !own.is_empty());
        components
            .map(|(number, (Component { planned, .. }, own))| Portion {
                number,
                planned,
                step_bytes: planned.row_bytes().saturating_mul(own.end - own.start),
                partition: Partition::of_share(&planned.plan, own),
            })
            .collect()
    }
}

/// The latest of those by which its datasets are planned.
fn rules(components: &[Component]) -> OrderRules {
    let of_each = components.iter().map(|component| component.planned.plan.rules());
    of_each.max_by_key(|rules| rules.get()).unwrap_or_default()
}

/// Bytes of a rank's rows of a step, about; at least one.
fn bytes_of_step(portions: &[Portion<'_>]) -> u64 {
    portions.iter().map(|portion| portion.step_bytes).fold(0, u64::saturating_add).max(1)
}

/// What a request over a mixture means for one of its datasets.
fn component_feed(feed: &Feed, dataset: &str, quota: u64) -> Feed {
    let windows = u128::from(feed.shuffle_bytes) * u128::from(quota) / u128::from(feed.batch_size);
    Feed {
        dataset: dataset.to_owned(),
        mixture: None,
        batch_size: quota,
        seed: component_seed(feed.seed, dataset),
        lanes: None,
        shuffle_bytes: windows as u64,
        ..feed.clone()
    }
}

/// The snapshots that a request names, one a dataset; none means the newest of each.
fn snapshots(said: Option<&SnapshotId>, datasets: usize) -> Result<Vec<Option<SnapshotId>>, Error> {
    let Some(said) = said else { return Ok(vec![None; datasets]) };
    let ids: Vec<_> = said.split().map(Some).collect();
    if ids.len() == datasets {
        return Ok(ids);
    }
    let message = format!(
        "the snapshot is of {} datasets and the mixture has {datasets}: give the snapshot, or the cursor, of this \
         mixture, or none",
        ids.len()
    );
    Err(Error::new(Code::InvalidFeed, message))
}

/// The columns of a mixture that names none: those of its first dataset, which all others must have and no more.
fn columns_of(first: &Component, dataset: &str, snapshot: &Snapshot) -> Result<Vec<String>, Error> {
    let names = |schema: &SchemaRef| -> Vec<String> {
        schema.fields().iter().map(|field| field.name().clone()).collect()
    };
    let wanted = names(first.planned.projection.schema());
    let here = names(&snapshot.schema);
    let known: BTreeSet<&String> = wanted.iter().collect();
    let own: BTreeSet<&String> = here.iter().collect();
    let lacks = |column: &str, has: &str, lacks: &str| {
        let message = format!(
            "dataset {has:?} has a column {column:?} and dataset {lacks:?} has none: name the columns that you want of \
             both, or compute it with select"
        );
        Error::new(Code::InvalidFeed, message)
    };
    match (own.difference(&known).next(), known.difference(&own).next()) {
        (Some(more), _) => Err(lacks(more, dataset, &first.dataset)),
        (_, Some(more)) => Err(lacks(more, &first.dataset, dataset)),
        (None, None) => Ok(wanted),
    }
}

/// One schema for all: a column is of one type, and may hold nulls where it may in any of them.
fn common_schema(components: &[Component]) -> Result<SchemaRef, Error> {
    let schemas: Vec<SchemaRef> =
        components.iter().map(|component| plain_schema(component.planned.projection.schema())).collect();
    let first = &schemas[0];
    let mut fields: Vec<FieldRef> = first.fields().iter().cloned().collect();
    for (Component { dataset, .. }, schema) in components.iter().zip(&schemas) {
        for (common, field) in fields.iter_mut().zip(schema.fields()) {
            if !is_alike(common.data_type(), field.data_type()) {
                let message = format!(
                    "column {:?} is {} in dataset {:?} and {} in dataset {dataset:?}: make it one type with select, \
                     such as CAST(x AS REAL) AS x",
                    field.name(),
                    common.data_type(),
                    components[0].dataset,
                    field.data_type()
                );
                return Err(Error::new(Code::InvalidFeed, message));
            }
            if field.is_nullable() && !common.is_nullable() {
                *common = Arc::new(common.as_ref().clone().with_nullable(true));
            }
        }
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, first.metadata().clone())))
}

/// Whether types are the same but for what writers call the items of lists.
fn is_alike(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::FixedSizeList(_, length), DataType::FixedSizeList(_, of)) if length != of => false,
        (DataType::List(item), DataType::List(of))
        | (DataType::LargeList(item), DataType::LargeList(of))
        | (DataType::FixedSizeList(item, _), DataType::FixedSizeList(of, _)) => {
            item.is_nullable() == of.is_nullable() && is_alike(item.data_type(), of.data_type())
        }
        _ => one == other,
    }
}

fn too_small(asked: &[mixture::Component], batch_size: u64, refused: BatchTooSmall) -> Error {
    let dataset = &asked[refused.component].dataset;
    let what_to_do = match refused.enough {
        Some(enough) => format!("raise batch_size to {enough}, raise its weight, or leave it out"),
        None => "raise its weight, or leave it out".to_owned(),
    };
    let message = format!(
        "the global batch of {batch_size} rows has none for dataset {dataset:?} by its weight: {what_to_do}"
    );
    Error::new(Code::InvalidFeed, message)
}

/// What a dataset of the mixture is refused for.
fn of_dataset(dataset: &str, error: &Error) -> Error {
    Error::new(error.code, format!("dataset {dataset:?} of the mixture: {error}"))
}
