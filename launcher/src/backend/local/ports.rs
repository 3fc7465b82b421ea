//! Ports for the tasks that others reach, held for the life of the job.
//!
//! In: a job's tasks. Out: bound sockets. The promise: from here to the end of the job no other launcher, and no
//! program that wants a port of its own, gets one of them, while the task's server binds beside the holder without a gap.
//! A holder does not listen, so no connection ever reaches it.
//!
//! A port is taken without any option, so that nobody has it; then the holder allows both ways in which servers bind
//! beside others: `SO_REUSEADDR`, which gRPC of every age sets, PyTorch's store and Python's servers too, and
//! `SO_REUSEPORT`. They lie outside the range from which the kernel serves whoever asks for any port.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::{holder, port_range};
use crate::environment::{chief, first_trainer};
use crate::job::Job;
use crate::topology::{Role, TaskId, Topology};

/// The ports of a job.
#[derive(Default)]
pub(super) struct Ports {
    held: BTreeMap<TaskId, HeldPort>,
    /// Where the trainers of a torch job meet.
    master: Option<HeldPort>,
    /// For a TensorBoard that a script starts itself.
    board: Option<HeldPort>,
    /// Those of the tasks go when these start.
    released: bool,
}

/// A port that is ours.
#[derive(Debug)]
struct HeldPort {
    number: u16,
    _socket: OwnedFd,
}

/// A port that could not be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum PortError {
    #[error("cannot reserve a port for the cluster: see `ss -lnt` for what occupies them: {source}")]
    None { source: std::io::Error },
    #[error("port {port} of {task} is taken by {by}: end that, or name another with --ports")]
    Taken { port: u16, task: TaskId, by: String },
    #[error("port {port} of {task} cannot be had: name another with --ports: {source}")]
    Refused { port: u16, task: TaskId, source: std::io::Error },
}

impl Ports {
    /// One for each task that others reach, and two for what scripts start themselves.
    pub(super) fn hold(job: &Job, topology: &Topology) -> Result<Self, PortError> {
        let mut ports = Self { released: job.wiring.release_ports, ..Self::default() };
        let mut candidates = port_range::candidates();
        let mut fixed = job.wiring.ports.iter();
        for task in in_order(topology) {
            let port = match fixed.next() {
                Some(port) => hold_fixed(*port, task)?,
                None => hold_any(&mut candidates)?,
            };
            ports.held.insert(task, port);
        }
        ports.master = Some(hold_any(&mut candidates)?);
        ports.board = Some(hold_any(&mut candidates)?);
        Ok(ports)
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = (TaskId, u16)> + '_ {
        self.held.iter().map(|(task, port)| (*task, port.number))
    }

    pub(super) fn master(&self) -> Option<u16> {
        self.master.as_ref().map(|port| port.number)
    }

    pub(super) fn board(&self) -> Option<u16> {
        self.board.as_ref().map(|port| port.number)
    }

    /// Lets go of what the task is to bind by itself: not every server can bind beside a holder.
    pub(super) fn starts(&mut self, task: TaskId, topology: &Topology) {
        if first_trainer(topology) == Some(task) {
            self.master = None;
        }
        if chief(topology) == Some(task) {
            self.board = None;
        }
        if self.released {
            self.held.remove(&task);
        }
    }
}

/// As scripts with ports written down have them: parameter servers first.
fn in_order(topology: &Topology) -> impl Iterator<Item = TaskId> + '_ {
    let is_ps = |task: &TaskId| task.role == Role::Ps;
    topology.addressed().filter(is_ps).chain(topology.addressed().filter(move |task| !is_ps(task)))
}

/// The first of `candidates` that is free on all addresses, since TensorFlow listens on all of them.
fn hold_any(candidates: &mut impl Iterator<Item = u16>) -> Result<HeldPort, PortError> {
    let free = candidates.find_map(|port| bind(port, false).ok());
    // The kernel's own choice where there is nothing outside its range.
    free.map_or_else(|| bind(0, false), Ok).map_err(|error| PortError::None { source: error.into() })
}

fn hold_fixed(port: u16, task: TaskId) -> Result<HeldPort, PortError> {
    let taken = |by| PortError::Taken { port, task, by };
    let error = match bind(port, false) {
        Ok(held) => return Ok(held),
        Err(Errno::ADDRINUSE) if holder::is_closing(port) => {
            // Connections of a run before linger a minute; a server that reuses addresses does not mind them.
            return bind(port, true).map_err(|_| taken(holder::name(port)));
        }
        Err(Errno::ADDRINUSE) => return Err(taken(holder::name(port))),
        Err(error) => error,
    };
    Err(PortError::Refused { port, task, source: error.into() })
}

fn bind(port: u16, beside_closing: bool) -> rustix::io::Result<HeldPort> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        // Closed in every child: the holder is the launcher alone.
        SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_socket_reuseaddr(&socket, beside_closing)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    let address = SocketAddrV4::try_from(rustix::net::getsockname(&socket)?)?;
    Ok(HeldPort { number: address.port(), _socket: socket })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::job::{Draft, Program, WiringDraft};

    const PS: TaskId = TaskId { role: Role::Ps, index: 0 };
    const WORKER: TaskId = TaskId { role: Role::Worker, index: 0 };

    fn hold(ports: &[u16], release: bool) -> Result<Ports, PortError> {
        let job = job(ports, release);
        Ports::hold(&job, &Topology::new(&job))
    }

    fn job(ports: &[u16], release: bool) -> Job {
        Job::resolve(Draft {
            program: Some(Program::Script("a.py".into())),
            num_ps: Some(1),
            wiring: WiringDraft {
                ports: Some(ports.to_vec()),
                release_ports: Some(release),
                ..WiringDraft::default()
            },
            ..Draft::default()
        })
        .unwrap()
    }

    /// As a server does that reuses addresses, or ports, or neither.
    fn server(port: u16, address: bool, port_too: bool) -> rustix::io::Result<OwnedFd> {
        let socket =
            rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, address)?;
        sockopt::set_socket_reuseport(&socket, port_too)?;
        rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
        rustix::net::listen(&socket, 1)?;
        Ok(socket)
    }

    #[test]
    fn a_held_port_is_its_servers_and_nobody_elses() {
        let ports = hold(&[], false).unwrap();
        for (_, port) in ports.numbers() {
            assert!(server(port, false, false).is_err(), "a program that wants it alone");
            assert!(bind(port, false).is_err(), "another launcher");
            assert!(server(port, true, false).is_ok(), "TensorFlow of any age");
            assert!(server(port, false, true).is_ok(), "told by TF_GRPC_REUSE_PORT");
        }
    }

    #[test]
    fn ports_differ_and_are_none_that_the_kernel_gives_away() {
        let jobs: Vec<_> = (0..10).map(|_| hold(&[], false).unwrap()).collect();
        let all = || {
            jobs.iter().flat_map(|ports| {
                ports.numbers().map(|(_, port)| port).chain(ports.master()).chain(ports.board())
            })
        };
        let different: std::collections::BTreeSet<_> = all().collect();
        assert_eq!(different.len(), 40);
        let given_away = port_range::of_the_kernel();
        assert!(all().all(|port| !given_away.contains(&port)), "{different:?} and {given_away:?}");
    }

    #[test]
    fn ports_that_were_named_are_had_parameter_servers_first() {
        let free: Vec<_> = hold(&[], false).unwrap().numbers().map(|(_, port)| port).collect();
        let ports = hold(&free, false).unwrap();
        assert_eq!(ports.held[&PS].number, free[0]);
        assert_eq!(ports.held[&WORKER].number, free[1]);
    }

    #[test]
    fn a_port_that_is_taken_is_named_with_who_has_it() {
        let [one, other] = [0, 0].map(|any| TcpListener::bind(("127.0.0.1", any)).unwrap());
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let refused = hold(&[port(&one), port(&other)], false).map(drop).unwrap_err().to_string();
        let pid = std::process::id();
        assert!(refused.starts_with(&format!("port {} of ps:0 is taken by ", port(&one))), "{refused}");
        assert!(refused.contains(&format!("(process {pid})")), "{refused}");
    }

    #[test]
    fn a_port_whose_connections_are_closing_is_free() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        // Whoever closes first keeps the address for a minute.
        drop(listener.accept().unwrap());
        drop(listener);
        drop(client);
        assert!(hold_fixed(port, PS).is_ok());
    }

    #[test]
    fn what_a_task_binds_by_itself_is_free_when_it_starts() {
        let topology = Topology::new(&job(&[], true));
        let mut ports = hold(&[], true).unwrap();
        let (port, master) = (ports.held[&WORKER].number, ports.master().unwrap());
        ports.starts(PS, &topology);
        assert!(server(master, false, false).is_err());
        ports.starts(WORKER, &topology);
        assert!(server(port, false, false).is_ok());
        assert!(server(master, false, false).is_ok());
    }
}
