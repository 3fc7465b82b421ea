//! Flags of one role alone.

use penstock_launcher::job::{Draft, JobError};
use penstock_launcher::topology::Role;

#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// What workers run in place of the script: a text for the shell. The same of other roles: --chief-cmd, --ps-cmd,
    /// --evaluator-cmd.
    #[arg(long, alias = "worker-launch-cmd", value_name = "COMMAND")]
    worker_cmd: Option<String>,

    #[arg(long, hide = true)]
    chief_cmd: Option<String>,

    #[arg(long, alias = "ps-launch-cmd", hide = true)]
    ps_cmd: Option<String>,

    #[arg(long, hide = true)]
    evaluator_cmd: Option<String>,

    /// What each worker needs: memory=8G,vcores=4,gpus=2. The same of other roles: --chief-resources, --ps-resources,
    /// --evaluator-resources, --tensorboard-resources.
    #[arg(long, value_name = "AMOUNTS")]
    worker_resources: Option<String>,

    #[arg(long, hide = true)]
    chief_resources: Option<String>,

    #[arg(long, hide = true)]
    ps_resources: Option<String>,

    #[arg(long, hide = true)]
    evaluator_resources: Option<String>,

    #[arg(long, hide = true)]
    tensorboard_resources: Option<String>,
}

impl Args {
    /// Adds what was said to a draft.
    pub(super) fn tell(&self, draft: &mut Draft) -> Result<(), JobError> {
        let commands = [
            (Role::Worker, &self.worker_cmd),
            (Role::Chief, &self.chief_cmd),
            (Role::Ps, &self.ps_cmd),
            (Role::Evaluator, &self.evaluator_cmd),
        ];
        for (role, text) in commands {
            if let Some(text) = text {
                draft.set_command(role, text);
            }
        }
        let resources = [
            (Role::Worker, &self.worker_resources),
            (Role::Chief, &self.chief_resources),
            (Role::Ps, &self.ps_resources),
            (Role::Evaluator, &self.evaluator_resources),
            (Role::TensorBoard, &self.tensorboard_resources),
        ];
        for (role, text) in resources {
            if let Some(text) = text {
                draft.set_resources(role, text)?;
            }
        }
        Ok(())
    }
}
