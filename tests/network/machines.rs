//! Machines with links to this one.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use penstock_tests::process::{Daemon, penstock_bin};
use penstock_tests::real;
use penstock_tests::trainer::LONG;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Set in the process that a test enters its own network with.
const INSIDE: &str = "PENSTOCK_NETWORK";
/// A card that no machine has.
const NOBODY: &str = "02:00:00:00:00:99";

/// A machine: a network namespace whose one link leads here.
pub(crate) struct Machine {
    /// A process that does nothing but live there.
    resident: Child,
    /// The near end of its link.
    link: String,
    /// The near end's address.
    near_address: String,
    /// Its address.
    address: String,
}

/// The way onto a machine.
pub(crate) struct Entry(File);

impl Entry {
    /// From now on the sockets of this thread are of that machine.
    pub(crate) fn enter(&self) {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }
}

/// Runs a test in a network of its own. Skips it, aloud, where nobody may have one: that is the kernel's or the
/// container's to say, so `CI` does not demand it.
pub(crate) fn in_own_network(test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        run(Command::new("ip").args(["link", "set", "lo", "up"]));
        return test();
    }
    if !may_have_networks() {
        return real::forbidden("a network namespace with a link and a shaper");
    }
    // Built here, for there is no way out of there.
    penstock_bin();
    let name = std::thread::current().name().unwrap().to_owned();
    let status = own_network()
        .arg(std::env::current_exe().unwrap())
        .args([&name, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{name}: {status}");
}

fn own_network() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--kill-child"]);
    command
}

fn may_have_networks() -> bool {
    let tried = "ip link set lo up && ip link add near0 type veth peer name far0 && \
                 tc qdisc add dev near0 root tbf rate 8kbit burst 1600 latency 1s";
    let status = own_network().args(["sh", "-c", tried]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Machine {
    /// The machine of a number.
    pub(crate) fn new(number: u8) -> Self {
        // It lives as long as its standard input is open: no longer than this process.
        let mut resident = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It speaks from its new home.
        let mut said = String::new();
        BufReader::new(resident.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let (link, far) = (format!("near{number}"), format!("far{number}"));
        let near_address = format!("10.0.{number}.1");
        let address = format!("10.0.{number}.2");
        let machine = Self { resident, link, near_address, address };
        let home = machine.resident.id().to_string();
        let ip = |arguments: &[&str]| run(Command::new("ip").args(arguments));
        ip(&["link", "add", &machine.link, "type", "veth", "peer", "name", &far, "netns", &home]);
        ip(&["address", "add", &format!("{}/24", machine.near_address), "dev", &machine.link]);
        ip(&["link", "set", &machine.link, "up"]);
        run(machine.there("ip").args(["address", "add", &format!("{}/24", machine.address), "dev", &far]));
        run(machine.there("ip").args(["link", "set", &far, "up"]));
        run(machine.there("ip").args(["link", "set", "lo", "up"]));
        machine
    }

    /// Starts a gateway on it, which fails with its machine.
    pub(crate) fn gateway(&self, arguments: &[&str]) -> Daemon {
        let listen = format!("{}:0", self.address);
        let mut command = self.there(penstock_bin().to_str().unwrap());
        Daemon::spawn(command.args(["gateway", "--listen", &listen]).args(arguments))
    }

    /// Where it finds this one.
    pub(crate) fn near_address(&self) -> &str {
        &self.near_address
    }

    pub(crate) fn entry(&self) -> Entry {
        Entry(File::open(format!("/proc/{}/ns/net", self.resident.id())).unwrap())
    }

    /// From now on nothing passes its link either way, and nobody is told: all is sent to a card that is not there.
    pub(crate) fn silence(&self) {
        let nobody = ["lladdr", NOBODY, "nud", "permanent"];
        self.neighbours("replace", &nobody);
    }

    pub(crate) fn heal(&self) {
        self.neighbours("del", &[]);
    }

    fn neighbours(&self, what: &str, how: &[&str]) {
        let near = &self.near_address;
        let far = self.far();
        run(self.there("ip").args(["neighbour", what, near, "dev", &far]).args(how));
        run(Command::new("ip").args(["neighbour", what, &self.address, "dev", &self.link]).args(how));
    }

    /// From now on a kilobyte a second leaves it.
    pub(crate) fn slow(&self) {
        run(self
            .there("tc")
            .args(["qdisc", "add", "dev", &self.far(), "root"])
            .args(["tbf", "rate", "8kbit", "burst", "1600", "limit", "100000"]));
    }

    /// From now on two megabytes a second reach it.
    pub(crate) fn narrow(&self) {
        run(Command::new("tc")
            .args(["qdisc", "add", "dev", &self.link, "root"])
            .args(["tbf", "rate", "16mbit", "burst", "16000", "limit", "100000"]));
    }

    /// How often it wanted to send more than it may since it was slowed.
    pub(crate) fn was_held_up(&self) -> u64 {
        let said = output(self.there("tc").args(["-s", "qdisc", "show", "dev", &self.far()]));
        number_behind(&said, "overlimits")
    }

    pub(crate) fn quicken(&self) {
        run(self.there("tc").args(["qdisc", "del", "dev", &self.far(), "root"]));
    }

    /// Segments that were sent again for want of an answer, there and here.
    pub(crate) fn sent_again(&self) -> u64 {
        let of = |mut reader: Command| counted(&output(reader.arg("/proc/net/snmp")), "Tcp:", "RetransSegs");
        of(self.there("cat")) + of(Command::new("cat"))
    }

    fn far(&self) -> String {
        self.link.replacen("near", "far", 1)
    }

    /// A program that is to run there.
    fn there(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.resident.id().to_string(), "--net", program]);
        command
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Ended already is as good.
        let _ = self.resident.kill();
        let _ = self.resident.wait();
    }
}

/// Waits until something is so. What never is fails the test by its own bound.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let bound = Instant::now() + LONG * 3;
    while !is_so() {
        assert!(Instant::now() < bound, "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// How often a kernel here asked whether a shut window is still shut.
pub(crate) fn window_probes() -> u64 {
    counted(&output(Command::new("cat").arg("/proc/net/netstat")), "TcpExt:", "TCPWinProbe")
}

/// One of a kernel's counters: a line of names, and one of values.
fn counted(said: &str, group: &str, name: &str) -> u64 {
    let mut lines = said.lines().filter_map(|line| line.strip_prefix(group)).map(str::split_whitespace);
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let found = names.zip(values).find(|(found, _)| *found == name);
    found.unwrap().1.parse().unwrap()
}

fn number_behind(text: &str, word: &str) -> u64 {
    let mut words = text.split_whitespace().skip_while(|found| *found != word);
    words.nth(1).unwrap_or_else(|| panic!("no {word} in {text}")).parse().unwrap()
}
