//! What footers take of a gateway's memory.

use std::time::Duration;

use penstock_daemon::Budget;

use super::*;

const MEMORY: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(120);

/// A file whose footer is some hundred kilobytes.
fn write_wide(directory: &Directory, name: &str, rows: i64) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let columns = (0..40).map(|number| (format!("column {number}"), Arc::clone(&ids)));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1)).build();
    write(&directory.path(name), &batch, properties);
}

fn dataset(directory: &Directory, memory: &FooterMemory) -> Dataset {
    Dataset::new("test", &directory.uri("")).unwrap().within(memory.clone())
}

fn footer_bytes(snapshot: &Snapshot) -> u64 {
    snapshot.files.iter().map(|file| file.footer.metadata().memory_size() as u64).sum()
}

#[tokio::test]
async fn footers_are_of_the_memory_for_as_long_as_anybody_has_them() {
    let directory = Directory::new();
    for number in 0..3 {
        write_wide(&directory, &format!("{number}.parquet"), 30);
    }
    let budget = Budget::new(MEMORY);
    let memory = FooterMemory::beside(&budget, 0, PATIENCE);
    let dataset = dataset(&directory, &memory);
    let taken = || MEMORY - budget.total();
    let first = dataset.snapshot().await.unwrap();
    let (before, least) = (taken(), footer_bytes(&first));
    assert!(least > 1 << 20, "{least}");
    assert!((least..2 * least + (1 << 20)).contains(&before), "{before} of {least}");
    assert_eq!(budget.leased(), 0, "they are no stream's");

    // Another file's footer, beside that of a snapshot that a stream may still read.
    write_wide(&directory, "1.parquet", 120);
    let second = dataset.snapshot().await.unwrap();
    let kept = first.files[1].footer.metadata().memory_size() as u64;
    assert!(taken() >= footer_bytes(&second) + kept);
    let with_both = taken();
    drop(first);
    assert!(taken() <= with_both);
    drop((dataset, second));
    assert_eq!(budget.total(), MEMORY);
}

#[tokio::test]
async fn footers_that_leave_too_little_or_find_nothing_free_are_refused() {
    let directory = Directory::new();
    write_wide(&directory, "0.parquet", 60);
    let (little, beside) = (Budget::new(1 << 20), 16 << 20);
    let refused = dataset(&directory, &FooterMemory::beside(&little, 0, PATIENCE)).snapshot().await;
    let text = refused.err().unwrap().to_string();
    assert!(
        text.contains("at most 1 of the gateway's 1 MiB may go to them: give it more --memory"),
        "{text}"
    );
    assert_eq!(little.total(), 1 << 20, "what is refused takes nothing");
    dataset(&directory, &FooterMemory::beside(&little, beside, PATIENCE)).snapshot().await.unwrap();

    let full = Budget::new(MEMORY);
    let lease = full.lease(MEMORY).await;
    let memory = FooterMemory::beside(&full, 0, Duration::ZERO);
    let error = dataset(&directory, &memory).snapshot().await.err().unwrap();
    assert_eq!(error.code(), penstock_proto::Code::Busy, "{error}");
    drop(lease);
    dataset(&directory, &memory).snapshot().await.unwrap();
}
