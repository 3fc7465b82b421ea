use super::*;
use crate::job::{Draft, Job};
use crate::topology::Role::{Chief, Evaluator, Ps, TensorBoard, Worker};
use crate::topology::{Role, TaskId};

const DONE: Exit = Exit::Code(0);

fn ended(role: Role, index: u32, exit: Exit) -> Event {
    Event::TaskEnded(TaskId { role, index }, exit)
}

/// Two workers, an evaluator and TensorBoard: each event with the step that follows, then the verdict
/// and its exit code.
fn check(story: Vec<(Event, Step)>, verdict: &str, code: i32) -> Watch {
    let two = Draft { evaluator: Some(true), tensorboard: Some(true), ..Draft::default() };
    check_job(two, story, verdict, code)
}

/// The same of a chief, two workers and a parameter server, where each worker may come back once.
fn check_served(story: Vec<(Event, Step)>, verdict: &str, code: i32) -> Watch {
    let served = Draft { chief: Some(true), num_ps: Some(1), max_restarts: Some(1), ..Draft::default() };
    check_job(served, story, verdict, code)
}

fn check_job(draft: Draft, story: Vec<(Event, Step)>, verdict: &str, code: i32) -> Watch {
    let job = Job::resolve(Draft { script: Some("a.py".into()), num_workers: Some(2), ..draft }).unwrap();
    let mut watch = Watch::new(&Topology::new(&job), job.max_restarts);
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

#[test]
fn servers_are_ended_when_the_chief_is_done() {
    let watch = check_served(
        vec![
            (ended(Chief, 0, DONE), Step::Terminate),
            (ended(Worker, 0, Exit::Signal(15)), Step::Continue),
            (ended(Worker, 1, Exit::Code(1)), Step::Continue),
            (ended(Ps, 0, Exit::Signal(15)), Step::Over),
        ],
        "succeeded",
        0,
    );
    assert_eq!(watch.state(TaskId { role: Worker, index: 1 }), TaskState::Stopped);
}

#[test]
fn servers_go_before_the_evaluator() {
    let draft = Draft {
        chief: Some(true),
        num_ps: Some(1),
        num_workers: Some(2),
        evaluator: Some(true),
        ..Draft::default()
    };
    check_job(
        draft,
        vec![
            (ended(Chief, 0, DONE), Step::AwaitEvaluator),
            (ended(Worker, 0, Exit::Signal(15)), Step::Continue),
            (ended(Worker, 1, Exit::Signal(15)), Step::Continue),
            (ended(Ps, 0, Exit::Signal(15)), Step::Continue),
            (ended(Evaluator, 0, DONE), Step::Over),
        ],
        "succeeded",
        0,
    );
}

#[test]
fn a_coordinators_worker_comes_back_as_often_as_its_budget_allows() {
    let back = |index| Step::Restart(TaskId { role: Worker, index });
    let watch = check_served(
        vec![
            (ended(Worker, 1, Exit::Signal(9)), back(1)),
            (ended(Worker, 0, Exit::Code(1)), back(0)),
            (ended(Worker, 1, Exit::Signal(9)), Step::Terminate),
            (ended(Chief, 0, Exit::Signal(15)), Step::Continue),
            (ended(Worker, 0, Exit::Signal(15)), Step::Continue),
            (ended(Ps, 0, Exit::Signal(15)), Step::Over),
        ],
        "failed: worker:1 was killed by SIGKILL (exit code 137), by hand or for want of memory",
        137,
    );
    assert_eq!(watch.restarts(TaskId { role: Worker, index: 1 }), 1);
}

#[test]
fn a_parameter_server_that_leaves_is_a_failure_whatever_its_code() {
    check_served(
        vec![(ended(Ps, 0, DONE), Step::Terminate)],
        "failed: ps:0 exited with code 0 while the job needed it",
        1,
    );
}

#[test]
fn without_a_chief_the_workers_decide_and_none_comes_back() {
    let tf1 = || Draft { num_ps: Some(1), ..Draft::default() };
    check_job(
        tf1(),
        vec![
            (ended(Worker, 0, DONE), Step::Continue),
            (ended(Worker, 1, DONE), Step::Terminate),
            (ended(Ps, 0, Exit::Signal(15)), Step::Over),
        ],
        "succeeded",
        0,
    );
    let killed = "failed: worker:1 was killed by SIGKILL (exit code 137), by hand or for want of memory";
    check_job(tf1(), vec![(ended(Worker, 1, Exit::Signal(9)), Step::Terminate)], killed, 137);
}
