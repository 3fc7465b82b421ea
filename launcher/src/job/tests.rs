use std::time::Duration;

use super::*;
use crate::topology::RestartPolicy;

/// The job that a file and, over it, flags give; or the one line that refuses it.
fn resolve(file: &str, flags: Draft) -> Result<Job, String> {
    let (below, _) = foreign::parse_file(file, std::path::Path::new("/jobs"))?;
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
successPolicy: chief
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
        success_policy: SuccessPolicy::Chief,
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
fn all_spellings_of_a_key_are_one() {
    for key in ["numWorkers", "num_workers", "num-workers"] {
        check(&format!("script: a.py\n{key}: 7"), "num_workers: 7");
    }
    check(
        "script: a.py\nnumWorkers: 7\nnum_workers: 7",
        "line 3: numWorkers is there twice, here as num_workers",
    );
}

#[test]
fn roles_differ_from_the_rest() {
    let file = "
numWorkers: 2
script: train.py
env: {A: 1}
roles:
  worker:
    args: [--fast, 0.10]
    env: {A: 2, B: }
    resources: {memory: 8G, vcores: 4, gpus: 2}
    restart_policy: Never
  ps: {replicas: 3, command: [bin/serve, --port], args: [7]}
  evaluator: {replicas: 1, module: pkg.evaluate}
  dispatcher: {command: 'exec serve --dispatch'}
";
    let job = resolve(file, Draft::default()).unwrap();
    assert_eq!((job.num_workers, job.num_ps, job.evaluator), (2, 3, true));
    let line = |role| {
        let (program, args) = job.command(role);
        format!("{program:?} {}", args.join(" "))
    };
    assert_eq!(line(Role::Worker), "Script(\"/jobs/train.py\") --fast 0.10");
    assert_eq!(line(Role::Ps), "Command(\"/jobs/bin/serve\") --port 7");
    assert_eq!(line(Role::Evaluator), "Module(\"pkg.evaluate\") ");
    assert_eq!(line(Role::from_name("dispatcher").unwrap()), "Command(\"sh\") -c exec serve --dispatch");
    let worker = &job.roles[&Role::Worker];
    assert_eq!(worker.env, [("A", "2"), ("B", "")].map(|(name, value)| (name.into(), value.into())).into());
    assert_eq!(worker.restart_policy, Some(RestartPolicy::Never));
    let resources = Resources { memory_bytes: Some(8 << 30), vcores: Some(4), gpus: Some(2) };
    assert_eq!(worker.resources, resources);
}

#[test]
fn a_job_of_roles_alone_runs_what_trains() {
    let job =
        resolve("roles: {worker: {script: a.py, args: [x]}, ps: {replicas: 1}}", Draft::default()).unwrap();
    assert_eq!((job.name.as_str(), job.command(Role::Ps).1), ("a", ["x".to_owned()].as_slice()));
    let job = resolve("command: 'cd /src && python my/train.py -x'", Draft::default()).unwrap();
    assert_eq!(job.name, "train");
}

#[test]
fn a_cluster_size_counts_all_members() {
    let sized = |size, file: &str| resolve(file, Draft { cluster_size: Some(size), ..Draft::default() });
    let job = sized(5, "script: a.py\nnumWorkers: 9\nnumPs: 1\nevaluator: true").unwrap();
    assert_eq!((job.num_workers, job.num_ps, job.evaluator), (3, 1, true));
    let refused = sized(2, "script: a.py\nnumPs: 1\nchief: true").unwrap_err();
    assert!(refused.contains("a cluster of 2 leaves no worker beside 2 other tasks"), "{refused}");
}

#[test]
fn roles_and_commands_that_cannot_work_are_refused() {
    check(
        "roles: {workre: {replicas: 2}}\nscript: a.py",
        "workre is no role of TensorFlow's and has no command",
    );
    assert!(resolve("roles: {data-worker: {replicas: 2}}\nscript: a.py", Draft::default()).is_ok());
    check("roles: {9: {}}\nscript: a.py", "line 1: \"9\" is no role's name");
    check("script: a.py\nroles:\n  ps: {image: x}", "line 3: the role ps has no key \"image\"");
    check(
        "script: a.py\nroles:\n  ps: {script: a, module: b}",
        "line 3: script, module and command exclude each other",
    );
    check(
        "script: a.py\nroles:\n  ps:\n    resources: {gpu: 1}",
        "line 4: resources of ps has no key \"gpu\", did you mean gpus?",
    );
    check("script: a.py\nroles:\n  ps:\n    resources: {memory: 8}", "line 4: \"8\" is no amount of memory");
    check("command: a b\nargs: [c]", "line 1: args stand beside a command that is one text");
    check("command: []", "line 1: the command is an empty list");
    check("script: a.py\nargs: x", "line 2: args holds \"x\", where a list of texts belongs");
    check("script: a.py\nenv: [x]", "line 2: env holds a list, where names and texts belong");
    check("script: a.py\nchief: 'true'", "line 2: chief is \"true\", which is no true or false");
    check("script: a.py\nsuccessPolicy: most", "line 2: \"most\" is no success policy");
    check("script: a.py\nnumWorkers: 0\nnumPs: 2", "2 parameter servers would have nobody to serve");
    check("roles: {evaluator: {replicas: 2}}\nscript: a.py", "2 tasks of role evaluator cannot be started");
    check("- a", "line 1: a list is no map");
    check("script: a.py\n---\nscript: b.py", "line 3: a job file is one document");
}

#[test]
fn an_evaluator_in_the_cluster_is_refused() {
    let expected = "the others would wait for it for ever";
    check("cluster:\n  worker: [a:1]\n  evaluator: [b:1]\ntask: {type: worker, index: 0}", expected);
    check("{cluster: {worker: ['a:1']}}", "line 1: the cluster is made here");
    let config = r#"{"cluster":{"worker":["a:1"],"evaluator":["b:1"]}}"#;
    check(&format!("script: a.py\nenv: {{TF_CONFIG: '{config}'}}"), expected);
    check(&format!("script: a.py\nroles: {{evaluator: {{env: {{TF_CONFIG: '{config}'}}}}}}"), expected);
}

#[test]
fn what_cannot_work_is_refused_in_one_line() {
    check(
        "script: a.py\nnumWorker: 2",
        "line 2: a job file has no key \"numWorker\", did you mean numWorkers?",
    );
    check("numWorkers: 2", "no script was given");
    check("script: a.py\nnumWorkers: 0", "0 workers cannot be started");
    check("script: a.py\nnumWorkers: 3\nreplicas: 2", "--replicas 2 does not divide the 3 tasks");
    check("script: a.py\nreplicas: 0", "--replicas 0 does not divide");
    check("script: a.py\nnumWorkers: 2\nreplicas: 2\nnumPs: 1", "leave one of the two out");
    check("script: a.py\nnumPs: 5000", "5000 parameter servers cannot be started");
    check("script: a.py\nnumWorkers: many", "line 2: numWorkers is \"many\", which is no whole number");
    check("script: a.py\nname: a/b", "not a job name");
    check("script: a.py\ngrace: soon", "line 2: grace is \"soon\", which is no length of time");
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
