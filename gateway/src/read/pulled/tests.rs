//! Lanes whose sender stops, and is there again in time, too late, or never.

use std::sync::Mutex;

use arrow::array::{AsArray as _, Int64Array};
use arrow::datatypes::Int64Type;
use penstock_daemon::Budget;

use super::super::{Need, Share};
use super::*;

const PAUSE: Duration = Duration::from_secs(1);
const STEPS: u64 = 100;
/// Of every step.
const ROWS: u64 = 4;

type Line = mpsc::Sender<RecordBatch>;

/// Lanes, and the lines that they were sent for by, each from a step on.
struct Bed {
    pulled: Pulled,
    lines: Arc<Mutex<Vec<(u64, Line)>>>,
    share: Share,
    step: u64,
}

impl Bed {
    async fn new() -> Self {
        let lines: Arc<Mutex<Vec<_>>> = Arc::default();
        let kept = Arc::clone(&lines);
        let ask: Ask = Box::new(move |first| {
            let (line, arriving) = mpsc::channel(1);
            kept.lock().unwrap().push((first, line));
            arriving
        });
        let need = Need {
            bytes: 1 << 10,
            open_bytes: 0,
            window_bytes: 0,
            has_windows: false,
            lanes: 1,
            row_bytes: 1,
            batch_bytes: 1,
            batch_rows: 1,
            part_rows: 1,
            queue_bytes: 1,
        };
        let share = Share::lease(&Budget::new(1 << 20), &[need], 0, PAUSE).await.unwrap().remove(0);
        Self { pulled: Pulled::new(vec![3], 0, STEPS, PAUSE, ask), lines, share, step: 0 }
    }

    /// The line that was asked for last, and the step that it begins with.
    fn last(&self) -> (u64, Line) {
        self.lines.lock().unwrap().last().unwrap().clone()
    }

    fn asked(&self) -> usize {
        self.lines.lock().unwrap().len()
    }

    fn hang_up(&self) {
        self.lines.lock().unwrap().clear();
    }

    /// Begins the next step; whether the lanes come again with it.
    fn step(&mut self) -> bool {
        self.step += 1;
        let Self { pulled, share, step, .. } = self;
        pulled.is_back(*step, || share.room_to_lend(1))
    }

    /// The ids that come, of a step's.
    async fn take(&mut self) -> Vec<i64> {
        let mut taken = Vec::new();
        let given = self.pulled.take(ROWS, &mut taken).await;
        let ids: Vec<i64> = taken.iter().flat_map(ids).collect();
        assert_eq!(ids.len() as u64, given);
        ids
    }
}

fn ids(taken: &Taken) -> Vec<i64> {
    let Taken::Rows { batch, range } = taken else { panic!("rows go as they came") };
    batch["id"].as_primitive::<Int64Type>().values()[range.clone()].to_vec()
}

fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from_iter_values(ids)) as _)]).unwrap()
}

#[tokio::test(start_paused = true)]
async fn lanes_that_stopped_come_again_with_a_step_that_begins() {
    let mut bed = Bed::new().await;
    bed.last().1.send(batch(0..6)).await.unwrap();
    assert_eq!(bed.take().await, [0, 1, 2, 3]);
    assert!(!bed.step());
    bed.hang_up();
    // What came is not lost.
    assert_eq!(bed.take().await, [4, 5]);
    bed.pulled.fall_back(bed.step);
    assert!(!bed.pulled.is_coming());
    for _ in 0..3 {
        assert!(!bed.step());
    }
    assert_eq!(bed.asked(), 0, "so soon");
    tokio::time::advance(PAUSE).await;
    assert!(!bed.step());
    // Four steps in the pause, and four more until they are wanted.
    let (first, line) = bed.last();
    assert_eq!((bed.step, first), (5, 9));
    line.send(batch(36..40)).await.unwrap();
    for _ in 0..3 {
        assert!(!bed.step() && !bed.pulled.is_coming());
    }
    assert!(bed.step() && bed.pulled.is_coming());
    assert_eq!(bed.take().await, [36, 37, 38, 39]);
    assert_eq!(bed.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_is_late_is_not_waited_for_and_asked_ever_more_rarely() {
    let mut bed = Bed::new().await;
    bed.hang_up();
    assert!(bed.take().await.is_empty());
    bed.pulled.fall_back(0);
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        tokio::time::advance(Duration::from_secs(pause) - Duration::from_millis(1)).await;
        assert!(!bed.step());
        assert_eq!(bed.asked(), 0, "{pause}");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!bed.step());
        let (first, _line) = bed.last();
        assert_eq!(first, bed.step + 2);
        // Nothing is there when it is wanted.
        assert!(!bed.step() && !bed.step());
        bed.hang_up();
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_without_room_nor_for_steps_that_are_not() {
    let mut bed = Bed::new().await;
    bed.hang_up();
    bed.pulled.fall_back(0);
    bed.step = 7;
    tokio::time::advance(PAUSE).await;
    assert!(!bed.pulled.is_back(8, || None));
    tokio::time::advance(2 * PAUSE).await;
    // The last step begins.
    bed.step = STEPS - 2;
    assert!(!bed.step());
    assert_eq!(bed.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn lanes_without_hope_at_first_come_later() {
    let mut bed = Bed::new().await;
    let Bed { pulled, .. } = bed;
    bed.pulled = Pulled::later(vec![3], 0, STEPS, PAUSE, pulled.ask);
    bed.hang_up();
    assert!(!bed.pulled.is_coming());
    tokio::time::advance(PAUSE).await;
    assert!(!bed.step());
    let (first, line) = bed.last();
    assert_eq!(first, 2);
    line.send(batch(8..12)).await.unwrap();
    assert!(bed.step());
    assert_eq!(bed.take().await, [8, 9, 10, 11]);
}
