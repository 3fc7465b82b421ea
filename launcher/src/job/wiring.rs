//! How scripts learn who they are, beside the variables that all tasks find.
//!
//! In: what flags and file say. Out: the same without gaps. The promise: what cannot be wired is refused.

use super::{ArgStyle, Job, JobError, Program};
use crate::topology::Role;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WiringSpec {
    /// Flags that are put behind each task's arguments.
    pub arg_style: ArgStyle,
    /// Those of the tasks that others reach, parameter servers first; any if empty.
    pub ports: Vec<u16>,
    /// Ports are free when their task is started, for programs that cannot bind beside the holder.
    pub release_ports: bool,
    /// `import tensorflow` is TensorFlow 1's.
    pub tf1_compat: bool,
    /// The function of the script that is called with its arguments and a context.
    pub map_fun: Option<String>,
}

/// The same with gaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WiringDraft {
    pub arg_style: Option<ArgStyle>,
    pub ports: Option<Vec<u16>>,
    pub release_ports: Option<bool>,
    pub tf1_compat: Option<bool>,
    pub map_fun: Option<String>,
}

impl WiringDraft {
    /// This draft, its gaps filled from the one below.
    pub(super) fn over(self, below: Self) -> Self {
        Self {
            arg_style: self.arg_style.or(below.arg_style),
            ports: self.ports.or(below.ports),
            release_ports: self.release_ports.or(below.release_ports),
            tf1_compat: self.tf1_compat.or(below.tf1_compat),
            map_fun: self.map_fun.or(below.map_fun),
        }
    }

    pub(super) fn resolve(self) -> WiringSpec {
        WiringSpec {
            arg_style: self.arg_style.unwrap_or_default(),
            ports: self.ports.unwrap_or_default(),
            release_ports: self.release_ports.unwrap_or(false),
            tf1_compat: self.tf1_compat.unwrap_or(false),
            map_fun: self.map_fun,
        }
    }

    /// Sets the style of this name.
    pub fn set_arg_style(&mut self, name: &str) -> Result<(), JobError> {
        let style = ArgStyle::from_name(name).ok_or_else(|| JobError::ArgStyle(name.to_owned()))?;
        self.arg_style = Some(style);
        Ok(())
    }
}

/// What the parts of a job say about each other.
pub(super) fn check(job: &Job) -> Result<(), JobError> {
    let WiringSpec { arg_style, ports, map_fun, .. } = &job.wiring;
    check_ports(ports, addressed(job))?;
    if *arg_style != ArgStyle::None && job.chief {
        return Err(JobError::ArgStyleChief);
    }
    if *arg_style == ArgStyle::PsHost {
        let count_on = ports.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
        if job.num_ps != 1 || ports.is_empty() || !count_on {
            return Err(JobError::PsHost);
        }
    }
    if let (Some(function), false) = (map_fun, matches!(job.program, Program::Script(_))) {
        return Err(JobError::MapFun(function.clone()));
    }
    let all_args = job.roles.values().filter_map(|spec| spec.args.as_ref()).chain([&job.args]);
    match all_args.flatten().find_map(|arg| crate::environment::unknown_input(arg, &job.inputs)) {
        Some(name) => Err(JobError::NoSuchInput(name.to_owned())),
        None => Ok(()),
    }
}

fn check_ports(ports: &[u16], tasks: usize) -> Result<(), JobError> {
    if !ports.is_empty() && ports.len() != tasks {
        return Err(JobError::Ports { ports: ports.len(), tasks });
    }
    let twice = |place: usize| ports[..place].contains(&ports[place]);
    match (0..ports.len()).find(|&place| twice(place)) {
        Some(place) => Err(JobError::PortTwice(ports[place])),
        None => Ok(()),
    }
}

/// How many tasks others reach.
fn addressed(job: &Job) -> usize {
    let others = job.roles.iter().filter(|(role, _)| matches!(role, Role::Other(_)));
    let others: u32 = others.map(|(_, spec)| spec.replicas).sum();
    (job.num_ps + u32::from(job.chief) + job.num_workers + others) as usize
}
