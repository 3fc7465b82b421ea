//! Gateway and sidecar as processes: ready lines, metrics, and how they leave.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::bed::{Bed, PENSTOCK};
use crate::command_line::check_refused;

struct Daemon {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Daemon {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(PENSTOCK)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// What follows `prefix` on the next line.
    fn says(&mut self, prefix: &str) -> String {
        let line = self.lines.next().unwrap().unwrap();
        line.strip_prefix(prefix).unwrap_or_else(|| panic!("{line:?} is no {prefix:?}")).to_owned()
    }
}

fn get(url: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_sidecar_is_ready_tells_its_health_and_leaves_with_zero() {
    let bed = Bed::new();
    let socket = bed.path("trainer.sock");
    let socket = socket.to_str().unwrap();
    let mut sidecar = Daemon::start(&["sidecar", "--listen", socket, "--admin", "127.0.0.1:0"]);
    let admin = sidecar.says("admin on ");
    assert_eq!(sidecar.says("listening on unix:"), socket);
    assert!(get(&admin, "/healthz").ends_with("ok\n"));
    assert!(get(&admin, "/metrics").contains("process_resident_memory_peak_bytes"));
    let asked = Command::new("kill").arg("-TERM").arg(sidecar.child.id().to_string()).status().unwrap();
    assert!(asked.success());
    assert_eq!(sidecar.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_sidecar_leaves_with_the_process_it_belongs_to() {
    let bed = Bed::new();
    let mut owner = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let socket = bed.path("trainer.sock");
    let pid = owner.id().to_string();
    let mut sidecar = Daemon::start(&["sidecar", "--listen", socket.to_str().unwrap(), "--exit-with", &pid]);
    sidecar.says("listening on unix:");
    drop(owner.stdin.take());
    owner.wait().unwrap();
    assert_eq!(sidecar.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_gateway_that_cannot_serve_says_why_in_one_line() {
    let bed = Bed::new();
    std::fs::write(bed.path("short.key"), "too short").unwrap();
    std::fs::write(bed.path("gateway.yaml"), "datasets: {d: x}\nlisten_at: here\n").unwrap();
    check_refused(&bed, &["gateway"], "--dataset NAME=URI");
    check_refused(&bed, &["gateway", "--dataset", "d"], "write NAME=URI");
    check_refused(&bed, &["gateway", "--dataset", "d=absent"], "absent");
    check_refused(&bed, &["gateway", "--dataset", "d=.", "--memory", "lots"], "512MiB");
    check_refused(&bed, &["gateway", "--dataset", "d=.", "--ticket-key-file", "short.key"], "short.key");
    check_refused(&bed, &["gateway", "--config", "gateway.yaml"], "listen_at");
    check_refused(&bed, &["gateway", "--dataset", "d=.", "--state", "s3://b"], "--state");
    check_refused(&bed, &["gateway", "--dataset", "d=.", "--admin", "nowhere"], "--admin");
    check_refused(&bed, &["inspect", "absent"], "absent");
    check_refused(&bed, &["inspect", ".", "--shuffle", "well"], "shuffle");
}
