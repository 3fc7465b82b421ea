use super::*;
use crate::job::{Draft, Job, Program, RoleDraft};
use crate::topology::Role;

const WORKERS: [TaskId; 2] =
    [TaskId { role: Role::Worker, index: 0 }, TaskId { role: Role::Worker, index: 1 }];
const EVALUATOR: TaskId = TaskId { role: Role::Evaluator, index: 0 };

/// The variables of one task of a job of two workers, an evaluator and TensorBoard, one a line.
fn check(task: TaskId, fed: bool, expected: &str) {
    let job = Job::resolve(Draft {
        program: Some(Program::Script("a.py".into())),
        num_workers: Some(2),
        evaluator: Some(true),
        tensorboard: Some(true),
        ..Draft::default()
    })
    .unwrap();
    let topology = Topology::new(&job);
    let mut wiring = Wiring {
        addresses: [(WORKERS[0], "127.0.0.1:7000".into()), (WORKERS[1], "127.0.0.1:7001".into())].into(),
        run_dir: "/run/one".into(),
        logdir: "/run/one/events".into(),
        no_proxy: Some("intra.net".into()),
        master: Some("127.0.0.1:7002".into()),
        board_port: Some(7003),
        attempts: [(WORKERS[1], 2)].into(),
        ..Wiring::default()
    };
    if fed {
        wiring.gateways = vec!["grpc://127.0.0.1:9000".into()];
        wiring.datasets = vec!["test".into(), "train".into()];
        wiring.sidecars =
            [(WORKERS[1], "/run/one/w1.sock".into()), (EVALUATOR, "/run/one/e0.sock".into())].into();
    }
    let of_task = topology.tasks.iter().find(|candidate| candidate.id == task).unwrap();
    let shown: String = variables(&job, of_task, &topology, &wiring)
        .into_iter()
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    assert_eq!(shown.trim(), expected.trim());
}

#[test]
fn a_fed_worker_knows_its_peers_and_its_sidecar_in_every_dialect() {
    check(
        WORKERS[1],
        true,
        r#"
ATTEMPT_NUMBER=2
CLUSTER_SPEC={"worker":["127.0.0.1:7000","127.0.0.1:7001"]}
DISTRIBUTED_MODE=GANG
GROUP_RANK=0
INIT_METHOD=tcp://127.0.0.1:7002
IS_CHIEF=false
JOB_NAME=worker
LOCAL_RANK=1
LOCAL_WORLD_SIZE=2
MASTER_ADDR=127.0.0.1
MASTER_PORT=7002
NO_PROXY=intra.net,127.0.0.1,localhost
PENSTOCK_DATASETS=test,train
PENSTOCK_GATEWAYS=grpc://127.0.0.1:9000
PENSTOCK_LOGDIR=/run/one/events
PENSTOCK_RANK=1
PENSTOCK_REPLICA=0
PENSTOCK_RUN_DIR=/run/one
PENSTOCK_SIDECAR=/run/one/w1.sock
PENSTOCK_WORLD_SIZE=2
PYTHONUNBUFFERED=1
RANK=1
TASK_INDEX=1
TASK_NUM=2
TF_CLUSTER_DEF={"worker":["127.0.0.1:7000","127.0.0.1:7001"]}
TF_CONFIG={"cluster":{"worker":["127.0.0.1:7000","127.0.0.1:7001"]},"task":{"index":1,"type":"worker"}}
TF_GRPC_REUSE_PORT=true
TF_INDEX=1
TF_ROLE=worker
WORLD=2
WORLD_SIZE=2
no_proxy=intra.net,127.0.0.1,localhost
"#,
    );
}

#[test]
fn the_evaluator_is_in_nobodys_cluster_not_even_its_own() {
    check(
        EVALUATOR,
        false,
        r#"
ATTEMPT_NUMBER=0
CLUSTER_SPEC={"worker":["127.0.0.1:7000","127.0.0.1:7001"]}
DISTRIBUTED_MODE=GANG
IS_CHIEF=false
JOB_NAME=evaluator
NO_PROXY=intra.net,127.0.0.1,localhost
PENSTOCK_LOGDIR=/run/one/events
PENSTOCK_RANK=0
PENSTOCK_REPLICA=0
PENSTOCK_RUN_DIR=/run/one
PENSTOCK_WORLD_SIZE=1
PYTHONUNBUFFERED=1
TASK_INDEX=0
TASK_NUM=1
TF_CLUSTER_DEF={"worker":["127.0.0.1:7000","127.0.0.1:7001"]}
TF_CONFIG={"cluster":{"worker":["127.0.0.1:7000","127.0.0.1:7001"]},"task":{"index":0,"type":"evaluator"}}
TF_GRPC_REUSE_PORT=true
TF_INDEX=0
TF_ROLE=evaluator
no_proxy=intra.net,127.0.0.1,localhost
"#,
    );
}

#[test]
fn tensorboard_is_nobodys_peer() {
    check(
        TaskId { role: Role::TensorBoard, index: 0 },
        true,
        "
NO_PROXY=intra.net,127.0.0.1,localhost
PENSTOCK_LOGDIR=/run/one/events
PENSTOCK_RUN_DIR=/run/one
PYTHONUNBUFFERED=1
no_proxy=intra.net,127.0.0.1,localhost
",
    );
}

#[test]
fn a_chief_knows_workers_and_parameter_servers_and_no_evaluator() {
    let job = Job::resolve(Draft {
        program: Some(Program::Script("a.py".into())),
        num_ps: Some(1),
        chief: Some(true),
        evaluator: Some(true),
        ..Draft::default()
    })
    .unwrap();
    let topology = Topology::new(&job);
    let addresses = topology.cluster().map(|id| (id, format!("{}:1", id.role.name()))).collect();
    let wiring = Wiring { addresses, ..Wiring::default() };
    let of = |role: Role| {
        let task = topology.tasks.iter().find(|task| task.id.role == role).unwrap();
        variables(&job, task, &topology, &wiring)
    };
    let cluster = r#"{"cluster":{"chief":["chief:1"],"ps":["ps:1"],"worker":["worker:1"]}"#;
    for role in [Role::Chief, Role::Ps, Role::Evaluator] {
        let variables = of(role);
        assert!(variables["TF_CONFIG"].starts_with(cluster), "{}", variables["TF_CONFIG"]);
        assert_eq!(variables["GRPC_FAIL_FAST"], "use_caller");
    }
    assert!(!of(Role::Ps).contains_key("PENSTOCK_RANK"));
    assert_eq!(of(Role::Chief)["PENSTOCK_WORLD_SIZE"], "1");
    assert_eq!(of(Role::Chief)["IS_CHIEF"], "true");
    assert_eq!(of(Role::Worker)["IS_CHIEF"], "false");
    assert!(!of(Role::Chief).contains_key("RANK"), "it coordinates, and does not train");
}

#[test]
fn a_role_of_the_jobs_own_is_reached_by_all_and_unknown_to_tensorflow() {
    let other = Role::from_name("dispatcher").unwrap();
    let job = Job::resolve(Draft {
        program: Some(Program::Script("a.py".into())),
        roles: [(other, RoleDraft { replicas: Some(1), ..RoleDraft::default() })].into(),
        ..Draft::default()
    })
    .unwrap();
    let topology = Topology::new(&job);
    let addresses = topology.addressed().map(|id| (id, format!("{}:1", id.role.name()))).collect();
    let wiring = Wiring { addresses, master: Some("host:2".into()), ..Wiring::default() };
    let of = |role: Role| {
        let task = topology.tasks.iter().find(|task| task.id.role == role).unwrap();
        variables(&job, task, &topology, &wiring)
    };
    let spec = r#"{"dispatcher":["dispatcher:1"],"worker":["worker:1"]}"#;
    assert_eq!(of(Role::Worker)["CLUSTER_SPEC"], spec);
    assert_eq!(of(other)["CLUSTER_SPEC"], spec);
    assert_eq!(of(Role::Worker)["TF_CLUSTER_DEF"], r#"{"worker":["worker:1"]}"#);
    for absent in ["TF_CONFIG", "TF_ROLE", "RANK", "TF_GRPC_REUSE_PORT"] {
        assert!(!of(other).contains_key(absent), "{absent}");
    }
    assert_eq!(of(other)["no_proxy"], "127.0.0.1,localhost,worker,dispatcher");
}

#[test]
fn modules_of_ours_come_before_whatever_else_python_is_told_of() {
    let path = |draft: Draft| {
        let job = Job::resolve(Draft { program: Some(Program::Script("a.py".into())), ..draft }).unwrap();
        let topology = Topology::new(&job);
        let wiring = Wiring {
            python_path: Some("/src:/a/lib/python3.9/site-packages".into()),
            shims: vec!["/run/shims".into()],
            ..Wiring::default()
        };
        variables(&job, &topology.tasks[0], &topology, &wiring)["PYTHONPATH"].clone()
    };
    assert_eq!(path(Draft::default()), "/run/shims:/src:/a/lib/python3.9/site-packages");
    assert_eq!(path(Draft { python: Some("/b/bin/python".into()), ..Draft::default() }), "/run/shims:/src");
    let named = [("PYTHONPATH".to_owned(), "/named".to_owned())].into();
    assert_eq!(path(Draft { env: named, ..Draft::default() }), "/run/shims:/named");
}
