use std::time::Duration;

use super::*;
use crate::topology::RestartPolicy;

/// The job that a file and, over it, flags give; or the one line that refuses it.
fn resolve(file: &str, flags: Draft) -> Result<Job, String> {
    let below = file::parse(file, std::path::Path::new("/jobs"))?;
    Job::resolve(flags.over(below)).map_err(|error| error.to_string())
}

fn check(file: &str, expected: &str) {
    let outcome = match resolve(file, Draft::default()) {
        Ok(job) => format!("{job:#?}"),
        Err(refusal) => {
            assert_eq!(refusal.lines().count(), 1, "one line: {refusal}");
            refusal
        }
    };
    assert!(outcome.contains(expected), "expected {expected:?} in:\n{outcome}");
}

#[test]
fn a_whole_file_becomes_a_job() {
    let file = "
name: digits
script: train.py
args: [--epochs, 3, --lr=0.1]
python: ../venv/bin/python
numWorkers: 2
numPs: 1
chief: true
evaluator: true
inputs:
  digits: data/train
  far: hdfs://name/node
tensorboard: true
logdir: events
runDir: /runs/one
grace: 30s
evaluatorGrace: 2m
maxRestarts: 5
restartPolicies: {worker: exitcode, Evaluator: Never}
ports: [2222, 2223, 2224, 2225]
releasePorts: true
tf1Compat: true
mapFun: main_fun
env: {LR: '0.1'}
startTimeout: 0
timeout: 2h
exitTimeout: 90s
";
    let job = resolve(file, Draft::default()).unwrap();
    let expected = Job {
        name: "digits".into(),
        program: Program::Script("/jobs/train.py".into()),
        args: vec!["--epochs".into(), "3".into(), "--lr=0.1".into()],
        python: "/jobs/../venv/bin/python".into(),
        num_workers: 2,
        replicas: 1,
        num_ps: 1,
        chief: true,
        evaluator: true,
        inputs: [("digits", "/jobs/data/train"), ("far", "hdfs://name/node")]
            .map(|(name, uri)| (name.into(), uri.into()))
            .into(),
        tensorboard: true,
        logdir: Some("/jobs/events".into()),
        run_dir: Some("/runs/one".into()),
        grace: Grace {
            stop: Duration::from_secs(30),
            after_failure: Duration::from_secs(30),
            evaluator: Duration::from_secs(120),
        },
        max_restarts: 5,
        start_timeout: None,
        exit_timeout: Duration::from_secs(90),
        timeout: Some(Duration::from_secs(7200)),
        wiring: WiringSpec {
            arg_style: ArgStyle::None,
            ports: vec![2222, 2223, 2224, 2225],
            release_ports: true,
            tf1_compat: true,
            map_fun: Some("main_fun".into()),
        },
        env: [("LR".to_owned(), "0.1".to_owned())].into(),
        roles: [(Role::Worker, RestartPolicy::ExitCode), (Role::Evaluator, RestartPolicy::Never)]
            .map(|(role, policy)| {
                (role, RoleDraft { restart_policy: Some(policy), ..RoleDraft::default() }.resolve())
            })
            .into(),
    };
    assert_eq!(job, expected);
}

#[test]
fn both_spellings_are_read() {
    let camel = "script: a.py\nnumWorkers: 3\nnumPs: 2\nmaxRestarts: 0\nrunDir: r\nevaluatorGrace: 1s";
    let snake = "script: a.py\nnum_workers: 3\nnum_ps: 2\nmax_restarts: 0\nrun_dir: r\nevaluator_grace: 1";
    assert_eq!(resolve(camel, Draft::default()), resolve(snake, Draft::default()));
}

#[test]
fn defaults_are_small_and_safe() {
    let job = resolve("script: dir/my train.py", Draft::default()).unwrap();
    assert_eq!(job.name, "my-train");
    assert_eq!(job.python, std::path::Path::new("python3"));
    assert_eq!((job.num_workers, job.num_ps, job.chief), (1, 0, false));
    assert_eq!((job.evaluator, job.tensorboard, job.max_restarts), (false, false, 3));
    assert_eq!(job.grace, Grace::default());
}

#[test]
fn flags_win_over_the_file() {
    let mut flags = Draft { num_workers: Some(4), evaluator: Some(false), ..Draft::default() };
    flags.add_input("digits=elsewhere").unwrap();
    let file = "script: a.py\nargs: [x]\nnumWorkers: 2\nevaluator: true\ninputs: {digits: here, more: there}";
    let job = resolve(file, flags).unwrap();
    assert_eq!((job.num_workers, job.evaluator), (4, false));
    assert_eq!(job.args, ["x"]);
    assert_eq!(job.inputs["digits"], "elsewhere");
    assert_eq!(job.inputs["more"], "/jobs/there");
}

#[test]
fn another_script_does_not_inherit_arguments() {
    let flags = Draft { program: Some(Program::Script("b.py".into())), ..Draft::default() };
    let job = resolve("script: a.py\nargs: [x]", flags).unwrap();
    assert_eq!((job.program, job.args), (Program::Script("b.py".into()), vec![]));
}

#[test]
fn what_cannot_work_is_refused_in_one_line() {
    check("script: a.py\nnumWorker: 2", "numWorker");
    check("numWorkers: 2", "no script was given");
    check("script: a.py\nnumWorkers: 0", "0 workers cannot be started");
    check("script: a.py\nnumWorkers: 3\nreplicas: 2", "--replicas 2 does not divide the 3 tasks");
    check("script: a.py\nreplicas: 0", "--replicas 0 does not divide");
    check("script: a.py\nnumWorkers: 2\nreplicas: 2\nnumPs: 1", "leave one of the two out");
    check("script: a.py\nnumPs: 5000", "5000 parameter servers cannot be started");
    check("script: a.py\nnumWorkers: many", "invalid u32 at line 2");
    check("script: a.py\nname: a/b", "not a job name");
    check("script: a.py\ngrace: soon", "not a length of time");
    check("script: a.py\ninputs: {'a,b': x}", "not a dataset name");
    check("script: [", "line 1");
    check("script: a.py\nports: [1, 2]", "--ports names 2 ports and 1 tasks have one");
    check("script: a.py\nnumWorkers: 2\nports: [7, 7]", "names 7 twice");
    check("script: a.py\nargStyle: tf3", "is no style of arguments");
    check("script: a.py\nargStyle: tf1\nchief: true", "leave --chief out");
    check("script: a.py\nargStyle: ps-host\nnumPs: 1", "and --ports, e.g. --ports 2222,2223");
    check("script: a.py\nargStyle: ps-host\nnumPs: 1\nports: [2222, 2230]", "workers count on from it");
    check("script: a.py\nargs: ['{input:tain}']\ninputs: {train: x}", "add --input tain=URI");
    check("script: a.py\nrestartPolicies: {2nd: Never}", "is no role");
    check("script: a.py\nrestartPolicies: {worker: Sometimes}", "is no restart policy");
    let mut flags = Draft::default();
    assert_eq!(flags.add_input("x"), Err(JobError::Input("x".into())));
    flags.add_input("x=1").unwrap();
    assert_eq!(flags.add_input("x=2"), Err(JobError::InputTwice("x".into())));
}
