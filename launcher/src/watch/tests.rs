use super::*;
use crate::job::{Draft, Job};
use crate::topology::Role::{Evaluator, TensorBoard, Worker};
use crate::topology::{Role, TaskId};

const DONE: Exit = Exit::Code(0);

fn ended(role: Role, index: u32, exit: Exit) -> Event {
    Event::TaskEnded(TaskId { role, index }, exit)
}

/// Two workers, an evaluator and TensorBoard: each event with the step that follows, then the verdict
/// and its exit code.
fn check(story: Vec<(Event, Step)>, verdict: &str, code: i32) -> Watch {
    let job = Job::resolve(Draft {
        script: Some("a.py".into()),
        num_workers: Some(2),
        evaluator: Some(true),
        tensorboard: Some(true),
        ..Draft::default()
    })
    .unwrap();
    let mut watch = Watch::new(&Topology::new(&job));
    for (event, step) in story {
        assert_eq!(watch.on(event.clone()), step, "{event:?}");
    }
    let reached = watch.verdict().unwrap();
    assert_eq!((reached.to_string().as_str(), reached.exit_code()), (verdict, code));
    watch
}

#[test]
fn all_workers_then_the_evaluator() {
    check(
        vec![
            (ended(Worker, 1, DONE), Step::Continue),
            (ended(Worker, 0, DONE), Step::AwaitEvaluator),
            (ended(Evaluator, 0, DONE), Step::Terminate),
            (ended(TensorBoard, 0, Exit::Signal(15)), Step::Over),
        ],
        "succeeded",
        0,
    );
}

#[test]
fn an_evaluator_that_goes_on_is_ended_and_not_blamed() {
    let watch = check(
        vec![
            (ended(TensorBoard, 0, Exit::Code(1)), Step::Continue),
            (ended(Worker, 0, DONE), Step::Continue),
            (ended(Worker, 1, DONE), Step::AwaitEvaluator),
            (Event::TimeUp, Step::Terminate),
            (Event::TimeUp, Step::Kill),
            (ended(Evaluator, 0, Exit::Signal(9)), Step::Over),
        ],
        "succeeded",
        0,
    );
    assert_eq!(watch.state(TaskId { role: Evaluator, index: 0 }), TaskState::Stopped);
    assert_eq!(watch.state(TaskId { role: TensorBoard, index: 0 }), TaskState::Failed);
}

#[test]
fn the_first_failure_ends_the_job_and_its_victims_are_not_blamed() {
    let watch = check(
        vec![
            (ended(Worker, 1, Exit::Signal(9)), Step::Terminate),
            (ended(Worker, 0, Exit::Code(1)), Step::Continue),
            (Event::DaemonEnded("gateway".into(), DONE), Step::Continue),
            (ended(Evaluator, 0, Exit::Signal(15)), Step::Continue),
            (ended(TensorBoard, 0, Exit::Signal(15)), Step::Over),
        ],
        "failed: worker:1 was killed by SIGKILL (exit code 137), by hand or for want of memory",
        137,
    );
    assert_eq!(watch.state(TaskId { role: Worker, index: 0 }), TaskState::Stopped);
    assert_eq!(watch.state(TaskId { role: Worker, index: 1 }), TaskState::Failed);
}

#[test]
fn a_daemons_end_is_a_failure_even_with_code_zero() {
    check(
        vec![(Event::DaemonEnded("sidecar of worker:0".into(), DONE), Step::Terminate)],
        "failed: sidecar of worker:0 exited with code 0 while the job ran",
        1,
    );
}

#[test]
fn the_second_interrupt_does_not_wait() {
    check(
        vec![(Event::Interrupted(2), Step::Terminate), (Event::Interrupted(2), Step::Kill)],
        "was interrupted by SIGINT",
        130,
    );
}

#[test]
fn an_evaluator_may_end_first() {
    check(
        vec![
            (ended(Evaluator, 0, DONE), Step::Continue),
            (ended(TensorBoard, 0, DONE), Step::Continue),
            (ended(Worker, 0, DONE), Step::Continue),
            (ended(Worker, 1, DONE), Step::Over),
        ],
        "succeeded",
        0,
    );
}
