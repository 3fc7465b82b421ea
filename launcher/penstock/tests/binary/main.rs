//! The binary and the jobs it runs, with real processes and scripts of a few lines. Where a job is fed,
//! gateway and sidecar are played by a shell script that says their ready lines, so that what is tested
//! is the launcher.

#![allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping")]

mod bed;
mod cleanup;
mod command_line;
mod daemons;
mod deadlines;
mod ends;
mod feeding;
mod restarts;
mod servers;
mod surroundings;
mod verbs;
mod wirings;
