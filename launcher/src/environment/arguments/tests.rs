use super::*;
use crate::job::{Draft, Program, WiringDraft};
use crate::topology::TaskId;

/// The arguments of worker 1 of a parameter server and two workers.
fn check(style: ArgStyle, args: &[&str], expected: &[&str]) {
    check_of(TaskId { role: Role::Worker, index: 1 }, style, args, expected);
}

fn check_of(id: TaskId, style: ArgStyle, args: &[&str], expected: &[&str]) {
    let job = Job::resolve(Draft {
        program: Some(Program::Script("a.py".into())),
        args: Some(args.iter().map(|&arg| arg.to_owned()).collect()),
        num_workers: Some(2),
        num_ps: Some(1),
        evaluator: Some(true),
        inputs: [("train".into(), "hdfs://n/train".into())].into(),
        wiring: WiringDraft {
            arg_style: Some(style),
            ports: Some(vec![2222, 2223, 2224]),
            ..WiringDraft::default()
        },
        ..Draft::default()
    })
    .unwrap();
    let topology = Topology::new(&job);
    let task = topology.tasks.iter().find(|task| task.id == id).unwrap();
    let address = |role, index, port| (TaskId { role, index }, format!("10.0.0.1:{port}"));
    let wiring = Wiring {
        addresses: [
            address(Role::Ps, 0, 2222),
            address(Role::Worker, 0, 2223),
            address(Role::Worker, 1, 2224),
        ]
        .into(),
        run_dir: "/run".into(),
        logdir: "/events".into(),
        ..Wiring::default()
    };
    assert_eq!(arguments(&job, &job.args, task, &topology, &wiring), expected);
}

#[test]
fn placeholders_are_filled_in() {
    check(
        ArgStyle::None,
        &[
            "--job={role}/{job_name}:{index}={task_index}",
            "{ps_hosts}",
            "--w={worker_hosts}",
            "c={chief_hosts}",
        ],
        &["--job=worker/worker:1=1", "10.0.0.1:2222", "--w=10.0.0.1:2223,10.0.0.1:2224", "c="],
    );
    check(
        ArgStyle::None,
        &["{num_workers}+{num_ps}", "{rank}/{world_size}", "{host}:{port}", "{logdir} {run_dir}"],
        &["2+1", "1/2", "10.0.0.1:2224", "/events /run"],
    );
    check(
        ArgStyle::None,
        &["{input:train}", "{input}", "{cluster}"],
        &[
            "hdfs://n/train",
            "hdfs://n/train",
            r#"{"ps":["10.0.0.1:2222"],"worker":["10.0.0.1:2223","10.0.0.1:2224"]}"#,
        ],
    );
}

#[test]
fn percent_signs_do_the_same() {
    check(
        ArgStyle::None,
        &["--data=%input_path%/a", "%role%%index%", "100%", "50% of 20%", "%d%%"],
        &["--data=hdfs://n/train/a", "worker1", "100%", "50% of 20%", "%d%%"],
    );
}

#[test]
fn all_else_in_braces_stays_as_it_is() {
    for untouched in [
        r#"{"lr": 0.1, "nested": {"a": {}}}"#,
        "{unknown}",
        "{}",
        "{",
        "}}{{",
        "{{ jinja }}",
        "s/{2,3}/ä{/",
        "{role",
        "{ role }",
    ] {
        check(ArgStyle::None, &[untouched], &[untouched]);
    }
    check(ArgStyle::None, &[r#"{"role": "{role}"}"#], &[r#"{"role": "worker"}"#]);
    check(ArgStyle::None, &["{{role}} {{input:train}}"], &["{role} {input:train}"]);
}

#[test]
fn what_a_task_lacks_is_left_alone() {
    let evaluator = TaskId { role: Role::Evaluator, index: 0 };
    check_of(evaluator, ArgStyle::None, &["{host}:{port} {rank}"], &["{host}:{port} 0"]);
}

#[test]
fn flags_of_tensorflow_1_come_last() {
    check(
        ArgStyle::Tf1,
        &["--epochs=1"],
        &[
            "--epochs=1",
            "--job_name=worker",
            "--task_index=1",
            "--ps_hosts=10.0.0.1:2222",
            "--worker_hosts=10.0.0.1:2223,10.0.0.1:2224",
        ],
    );
    check(
        ArgStyle::Tf1Dashes,
        &[],
        &[
            "--job-name=worker",
            "--task-index=1",
            "--ps-hosts=10.0.0.1:2222",
            "--worker-hosts=10.0.0.1:2223,10.0.0.1:2224",
        ],
    );
    check(
        ArgStyle::PsHost,
        &[],
        &[
            "--job-name=worker",
            "--task-index=1",
            "--ps-host=10.0.0.1",
            "--port=2222",
            "--worker-host",
            "10.0.0.1",
            "10.0.0.1",
        ],
    );
}

#[test]
fn inputs_that_are_not_there_are_found() {
    let inputs = [("train".to_owned(), "a".to_owned())].into();
    assert_eq!(unknown_input("{input:train} {input:tain}", &inputs), Some("tain"));
    assert_eq!(unknown_input("{{input:tain}} {input:train} {input", &inputs), None);
}
