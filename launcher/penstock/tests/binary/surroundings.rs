//! What a task finds around it: its ports, TensorBoard beside it.

use penstock_launcher::job::Program;

use crate::bed::Bed;

#[test]
fn ports_are_held_for_their_tasks() {
    let bed = Bed::new();
    let program = bed.path("task.py");
    // Each worker binds its own port as TensorFlow does, and reaches the other's.
    std::fs::write(
        &program,
        r#"
import json, os, socket
config = json.loads(os.environ["TF_CONFIG"])
index = config["task"]["index"]
addresses = [address.rsplit(":", 1) for address in config["cluster"]["worker"]]
host, port = addresses[index]
plain = socket.socket()
try:
    plain.bind(("0.0.0.0", int(port)))
    raise SystemExit("the port was not held")
except OSError:
    pass
assert os.environ["TF_GRPC_REUSE_PORT"] == "true"
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("0.0.0.0", int(port)))
server.listen()
peer_host, peer_port = addresses[1 - index]
while True:
    try:
        peer = socket.create_connection((peer_host, int(peer_port)))
        break
    except ConnectionRefusedError:
        pass
connection, _ = server.accept()
peer.sendall(b"from %d" % index)
print(connection.recv(100).decode())
"#,
    )
    .unwrap();
    let mut draft = bed.draft("");
    draft.program = Some(Program::Script(program));
    draft.python = Some("python3".into());
    let outcome = bed.run(draft);
    outcome.check("succeeded", 0, &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0"]);
    outcome.assert_shown("worker:0 | from 1");
    outcome.assert_shown("worker:1 | from 0");
}

/// A Python whose TensorBoard is `body`.
fn with_tensorboard(bed: &Bed, body: &str, task: &str) -> penstock_launcher::job::Draft {
    let mut draft = bed.draft(task);
    let python = format!("if [ \"$1\" = -m ]; then\n{body}\nfi\nexec /bin/sh \"$@\"");
    draft.python = Some(bed.script("python", &python));
    draft.tensorboard = Some(true);
    draft
}

#[test]
fn tensorboards_address_is_shown_and_it_ends_with_the_job() {
    let bed = Bed::new();
    let board = r#"
echo "$*" > "$BED/board.args"
echo "TensorBoard 2.21.0 at http://localhost:6006/ (Press CTRL+C to quit)" >&2
touch "$BED/board"
exec sleep 1000"#;
    let task = r#"while [ ! -e "$BED/board" ]; do sleep 0.01; done"#;
    let outcome = bed.run(with_tensorboard(&bed, board, task));
    outcome.check(
        "succeeded",
        0,
        &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0", "tensorboard:0 stopped, signal 15"],
    );
    outcome.assert_shown("TensorBoard at http://localhost:6006/");
    let logdir = bed.path("run/tensorboard");
    assert_eq!(
        bed.read("board.args").trim(),
        format!("-m tensorboard.main --logdir {} --port 0", logdir.display())
    );
}

#[test]
fn an_absent_tensorboard_is_one_warning_and_no_failure() {
    let bed = Bed::new();
    let board = r#"echo "/bin/python: No module named tensorboard" >&2; exit 1"#;
    let outcome = bed.run(with_tensorboard(&bed, board, "sleep 0.5"));
    outcome.check(
        "succeeded",
        0,
        &["worker:0 succeeded, code 0", "worker:1 succeeded, code 0", "tensorboard:0 failed, code 1"],
    );
    assert_eq!(outcome.shown.matches("warning: ").count(), 1, "{}", outcome.shown);
    outcome.assert_shown("pip install tensorboard");
}
