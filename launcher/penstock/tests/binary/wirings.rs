//! How scripts of six kinds learn who they are: each asks in its own way, and all hear the same.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};

use penstock_launcher::job::{ArgStyle, Draft, Program, WiringDraft};

use crate::bed::{Bed, PENSTOCK};
use crate::command_line::check_refused;

/// A job whose tasks are this Python program.
fn python(bed: &Bed, program: &str) -> Draft {
    let path = bed.path("task.py");
    std::fs::write(&path, program).unwrap();
    Draft { program: Some(Program::Script(path)), python: Some("python3".into()), ..bed.draft("") }
}

/// Ports that were free a moment ago, outside of what the kernel and other jobs choose from.
fn free_ports<const N: usize>() -> [u16; N] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 5_000 + u16::try_from(std::process::id() % 4_000).unwrap();
    [(); N].map(|()| {
        let candidates = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed) % 1_000);
        candidates.take(1_000).find(|&port| TcpListener::bind(("0.0.0.0", port)).is_ok()).unwrap()
    })
}

#[test]
fn scripts_of_every_dialect_hear_the_same() {
    let bed = Bed::new();
    let program = r#"
import json, os, sys
env = os.environ
tensorflow = json.loads(env["TF_CONFIG"])
role, index, cluster = tensorflow["task"]["type"], tensorflow["task"]["index"], tensorflow["cluster"]
tony = env["JOB_NAME"], int(env["TASK_INDEX"]), json.loads(env["CLUSTER_SPEC"])
xlearning = env["TF_ROLE"], int(env["TF_INDEX"]), json.loads(env["TF_CLUSTER_DEF"])
flags = dict(arg[2:].split("=", 1) for arg in sys.argv[2:])
argv = flags["job_name"], int(flags["task_index"]), {name: flags[name + "_hosts"].split(",") for name in ("ps", "worker")}
assert tony == xlearning == argv == (role, index, cluster), (tony, xlearning, argv, tensorflow)
assert sorted(cluster) == ["ps", "worker"], cluster
assert sys.argv[1] == "%s:%s" % (role, index), sys.argv
assert env["IS_CHIEF"] == str((role, index) == ("worker", 0)).lower()
assert (env.get("RANK"), env.get("WORLD_SIZE")) == ((str(index), "2") if role == "worker" else (None, None))
print("agreed")
import time
while role == "ps": time.sleep(1)
"#;
    let draft = python(&bed, program);
    let outcome = bed.run(Draft {
        args: Some(vec!["{role}:{index}".into()]),
        num_ps: Some(1),
        evaluator: Some(true),
        wiring: WiringDraft { arg_style: Some(ArgStyle::Tf1), ..WiringDraft::default() },
        ..draft
    });
    assert_eq!(outcome.summary.exit_code, 0, "{}", outcome.shown);
    for task in ["worker:0", "worker:1", "evaluator:0"] {
        outcome.assert_shown(&format!("{task} | agreed"));
    }
}

/// As PyTorch does it: rank 0 serves at the address, the others come; twice, since a gang that is started again
/// meets there again.
#[test]
fn trainers_meet_at_the_masters_address() {
    let bed = Bed::new();
    let program = r#"
import os, signal, socket
rank, address = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
assert os.environ["INIT_METHOD"] == "tcp://%s:%s" % address
assert os.environ["WORLD"] == os.environ["WORLD_SIZE"] == os.environ["LOCAL_WORLD_SIZE"] == "2"
if rank == 0:
    server = socket.create_server(address, reuse_port=False)
    peer, _ = server.accept()
    peer.sendall(b"welcome")
    peer.recv(1)
else:
    while True:
        try:
            peer = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            pass
    print(peer.recv(100).decode(), "in attempt", os.environ["ATTEMPT_NUMBER"])
if os.environ["ATTEMPT_NUMBER"] == "0":
    os.kill(os.getpid(), signal.SIGKILL)
"#;
    let outcome = bed.run(python(&bed, program));
    outcome.check("succeeded", 0, &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0"]);
    outcome.assert_shown("worker:1 | welcome in attempt 1");
}

/// Its cluster is written down in it, and its servers take their ports for themselves.
const HARD_CODED: &str = r#"
import socket, sys
cluster = {"ps": [PS], "worker": [WORKER]}
role, index = sys.argv[1], int(sys.argv[2])
server = socket.socket()
server.bind(("localhost", cluster[role][index]))
server.listen()
if role == "ps":
    while True:
        server.accept()[0].sendall(b"variables")
while True:
    try:
        print(socket.create_connection(("localhost", cluster["ps"][0])).recv(100).decode())
        break
    except ConnectionRefusedError:
        pass
"#;

#[test]
fn ports_that_a_script_has_written_down_are_its_own() {
    let bed = Bed::new();
    let [ps, worker] = free_ports();
    let program = HARD_CODED.replace("PS", &ps.to_string()).replace("WORKER", &worker.to_string());
    let draft = python(&bed, &program);
    let outcome = bed.run(Draft {
        args: Some(vec!["{job_name}".into(), "{task_index}".into()]),
        num_workers: Some(1),
        num_ps: Some(1),
        wiring: WiringDraft {
            ports: Some(vec![ps, worker]),
            release_ports: Some(true),
            ..WiringDraft::default()
        },
        ..draft
    });
    outcome.check("succeeded", 0, &["worker:0 succeeded, code 0", "ps:0 stopped, signal 15"]);
    outcome.assert_shown("worker:0 | variables");
}

#[test]
fn a_port_that_is_taken_is_a_sentence_before_anything_starts() {
    let bed = Bed::new();
    bed.script("task.sh", "touch started");
    let [free, port] = free_ports();
    let _holder = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let ports = format!("--ports={free},{port}");
    let expected = format!("port {port} of worker:1 is taken by binary-");
    check_refused(&bed, &["run", "--python", "/bin/sh", "-n", "2", &ports, "task.sh"], &expected);
    let process = format!("(process {})", std::process::id());
    let again = ["run", "--python", "/bin/sh", "-n", "2", &ports, "task.sh"];
    check_refused(&bed, &again, &process);
    assert!(!bed.path("started").exists());
    check_refused(&bed, &["run", "--ports=1,2", "task.sh"], "names 2 ports and 1 tasks have one");
    check_refused(&bed, &["run", "task.sh", "{input:train}"], "add --input train=URI");
    check_refused(&bed, &["run", "--arg-style=tf9", "task.sh"], "is no style of arguments");
}

/// A package that is to TensorFlow what a bed is to a cluster.
fn made_up_tensorflow(bed: &Bed) -> PathBuf {
    let place = bed.path("packages");
    std::fs::create_dir_all(place.join("tensorflow/compat/v1")).unwrap();
    std::fs::create_dir_all(place.join("tensorflow/python")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(place.join(name), text).unwrap();
    write("tensorflow/__init__.py", "__version__ = '2.99'\nfrom tensorflow import compat\n");
    write("tensorflow/compat/__init__.py", "from tensorflow.compat import v1\n");
    write(
        "tensorflow/compat/v1/__init__.py",
        "behaviour = 2\ndef disable_v2_behavior():\n    global behaviour\n    behaviour = 1\n",
    );
    write("tensorflow/python/__init__.py", "here = True\n");
    write("sitecustomize.py", "import builtins\nbuiltins.of_the_user = 'kept'\n");
    place
}

#[test]
fn tensorflow_1_is_imported_and_the_users_own_customization_kept() {
    let bed = Bed::new();
    let packages = made_up_tensorflow(&bed);
    let program = r#"
import tensorflow as tf
import tensorflow.python
assert tf.behaviour == 1 and tf.__version__ == "2.99" and tensorflow.python.here
print("version 1,", of_the_user)
"#;
    let mut draft = python(&bed, program);
    draft.env.insert("PYTHONPATH".into(), packages.display().to_string());
    draft.num_workers = Some(1);
    draft.wiring.tf1_compat = Some(true);
    let outcome = bed.run(draft);
    outcome.check("succeeded", 0, &["worker:0 succeeded, code 0"]);
    outcome.assert_shown("worker:0 | version 1, kept");
}

#[test]
fn another_interpreter_is_not_led_to_this_ones_library() {
    let bed = Bed::new();
    let interpreter = bed.script("bin/python", "echo \"home ${PYTHONHOME-none} path $PYTHONPATH\"");
    bed.script("task.sh", "");
    let output = std::process::Command::new(PENSTOCK)
        .args(["run", "--python"])
        .arg(interpreter)
        .arg("task.sh")
        .env("PYTHONHOME", "/elsewhere")
        .env("PYTHONPATH", "/mine:/elsewhere/lib/python3.9/site-packages")
        .current_dir(bed.directory.path())
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("worker:0 | home none path /mine\n"), "{shown}");
}
