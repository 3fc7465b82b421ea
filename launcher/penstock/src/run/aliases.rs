//! Other launchers' words for how many there are.

use anyhow::bail;

#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// TensorFlowOnSpark's: workers, parameter servers, chief and evaluator together.
    #[arg(long, hide = true)]
    pub(super) cluster_size: Option<u32>,

    /// torchrun's.
    #[arg(long, hide = true)]
    nnodes: Option<String>,

    #[arg(long, hide = true)]
    nproc_per_node: Option<u32>,
}

impl Args {
    /// The workers that were asked for in either way.
    pub(super) fn num_workers(&self, said: Option<u32>) -> anyhow::Result<Option<u32>> {
        let nodes = match self.nnodes.as_deref() {
            None => None,
            Some(range) if range.contains(':') => {
                bail!(
                    "--nnodes {range} asks for a number that changes, and a job has one from start to end: write --nnodes N"
                )
            }
            Some(text) => match text.parse::<u32>() {
                Ok(nodes) => Some(nodes),
                Err(_) => bail!("--nnodes {text} is no whole number"),
            },
        };
        let asked = match (nodes, self.nproc_per_node) {
            (None, None) => return Ok(said),
            (nodes, processes) => nodes.unwrap_or(1).saturating_mul(processes.unwrap_or(1)),
        };
        if said.is_some() {
            bail!(
                "--num-workers stands beside --nnodes or --nproc-per-node, which say the same: leave one out"
            );
        }
        Ok(Some(asked))
    }
}
