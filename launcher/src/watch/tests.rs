use super::*;
use crate::job::{Draft, Job, Program, RoleDraft, SuccessPolicy};
use crate::topology::Role::{Chief, Evaluator, Ps, TensorBoard, Worker};
use crate::topology::{RestartPolicy, Role, TaskId};

const DONE: Exit = Exit::Code(0);
const EVALUATOR: TaskId = TaskId { role: Evaluator, index: 0 };

fn worker(index: u32) -> TaskId {
    TaskId { role: Worker, index }
}

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
    let job =
        Job::resolve(Draft { program: Some(Program::Script("a.py".into())), num_workers: Some(2), ..draft })
            .unwrap();
    let topology = Topology::new(&job);
    let mut watch = Watch::new(&topology, job.max_restarts);
    for (event, step) in story {
        assert_eq!(watch.on(event.clone()), step, "{event:?}");
        match step {
            Step::Restart(task) => watch.started(task),
            Step::RestartGang(_) => topology.cluster().for_each(|task| watch.started(task)),
            _ => {}
        }
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
            (ended(Worker, 1, Exit::Code(3)), Step::Terminate),
            (ended(Worker, 0, Exit::Code(1)), Step::Continue),
            (Event::DaemonEnded("gateway".into(), DONE), Step::Continue),
            (ended(Evaluator, 0, Exit::Signal(15)), Step::Continue),
            (ended(TensorBoard, 0, Exit::Signal(15)), Step::Over),
        ],
        "failed: worker:1 exited with code 3",
        3,
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
fn without_a_chief_the_workers_decide_and_each_comes_back_alone() {
    let tf1 = || Draft { num_ps: Some(1), max_restarts: Some(1), ..Draft::default() };
    check_job(
        tf1(),
        vec![
            (ended(Worker, 0, DONE), Step::Continue),
            (ended(Worker, 1, Exit::Signal(9)), Step::Restart(worker(1))),
            (ended(Worker, 1, DONE), Step::Terminate),
            (ended(Ps, 0, Exit::Signal(15)), Step::Over),
        ],
        "succeeded",
        0,
    );
    check_job(
        tf1(),
        vec![(ended(Worker, 1, Exit::Code(1)), Step::Terminate)],
        "failed: worker:1 exited with code 1",
        1,
    );
}

#[test]
fn workers_in_step_end_and_come_back_together() {
    let draft = || Draft { evaluator: Some(true), max_restarts: Some(1), ..Draft::default() };
    let watch = check_job(
        draft(),
        vec![
            (ended(Worker, 1, Exit::Signal(9)), Step::StopGang(worker(1))),
            // Its peers fail by its death, and are not blamed; the evaluator is no peer.
            (ended(Evaluator, 0, Exit::Code(1)), Step::Restart(EVALUATOR)),
            (ended(Worker, 0, Exit::Code(1)), Step::RestartGang(worker(1))),
            (ended(Worker, 0, DONE), Step::Continue),
            (ended(Worker, 1, DONE), Step::AwaitEvaluator),
            (ended(Evaluator, 0, DONE), Step::Over),
        ],
        "succeeded",
        0,
    );
    assert_eq!([worker(0), worker(1), EVALUATOR].map(|task| watch.restarts(task)), [1, 1, 1]);
    check_job(
        draft(),
        vec![
            (ended(Worker, 0, DONE), Step::Continue),
            (ended(Worker, 1, Exit::Signal(9)), Step::RestartGang(worker(1))),
            (ended(Worker, 0, Exit::Signal(11)), Step::Terminate),
            (ended(Worker, 1, Exit::Signal(15)), Step::Continue),
            (ended(Evaluator, 0, Exit::Signal(15)), Step::Over),
        ],
        "failed: worker:0 was killed by SIGSEGV (exit code 139)",
        139,
    );
}

#[test]
fn members_that_do_not_end_are_killed_and_the_user_may_end_it_all() {
    let watch = check(
        vec![
            (ended(Worker, 1, Exit::Code(42)), Step::StopGang(worker(1))),
            (Event::TimeUp, Step::KillGang),
            (Event::Interrupted(2), Step::Terminate),
            (ended(Worker, 0, Exit::Signal(9)), Step::Continue),
            (ended(Evaluator, 0, Exit::Signal(15)), Step::Continue),
            (ended(TensorBoard, 0, Exit::Signal(15)), Step::Over),
        ],
        "was interrupted by SIGINT",
        130,
    );
    assert_eq!(watch.state(worker(1)), TaskState::Stopped);
}

#[test]
fn a_dead_parameter_server_takes_all_along() {
    check_served(
        vec![
            // A worker that was about to come back comes back with all.
            (ended(Worker, 0, Exit::Signal(9)), Step::Restart(worker(0))),
            (ended(Ps, 0, Exit::Signal(9)), Step::StopGang(TaskId { role: Ps, index: 0 })),
            (ended(Chief, 0, Exit::Code(1)), Step::Continue),
            (ended(Worker, 1, Exit::Code(1)), Step::Continue),
            (ended(Worker, 0, Exit::Signal(15)), Step::RestartGang(TaskId { role: Ps, index: 0 })),
            (ended(Chief, 0, DONE), Step::Terminate),
        ],
        "succeeded",
        0,
    );
}

#[test]
fn a_policy_of_the_users_wins() {
    let with = |policy| {
        let worker = RoleDraft { restart_policy: Some(policy), ..RoleDraft::default() };
        Draft { roles: [(Worker, worker)].into(), ..Draft::default() }
    };
    check_job(
        with(RestartPolicy::Never),
        vec![(ended(Worker, 1, Exit::Signal(9)), Step::Terminate)],
        "failed: worker:1 was killed by SIGKILL (exit code 137), by hand or for want of memory",
        137,
    );
    check_job(
        with(RestartPolicy::OnFailure),
        vec![
            (ended(Worker, 1, Exit::Code(1)), Step::StopGang(worker(1))),
            (ended(Worker, 0, DONE), Step::RestartGang(worker(1))),
            (ended(Worker, 0, DONE), Step::Continue),
            (ended(Worker, 1, DONE), Step::Over),
        ],
        "succeeded",
        0,
    );
}

#[test]
fn where_the_chiefs_success_is_the_jobs_no_other_worker_is_waited_for() {
    let draft = || Draft { success_policy: Some(SuccessPolicy::Chief), ..Draft::default() };
    let watch = check_job(
        draft(),
        vec![(ended(Worker, 0, DONE), Step::Terminate), (ended(Worker, 1, Exit::Signal(15)), Step::Over)],
        "succeeded",
        0,
    );
    assert_eq!(watch.state(worker(1)), TaskState::Stopped);
    check_job(
        draft(),
        vec![(ended(Worker, 1, DONE), Step::Continue), (ended(Worker, 0, Exit::Code(3)), Step::Over)],
        "failed: worker:0 exited with code 3",
        3,
    );
}
