//! The GPUs of the trainer beside this sidecar, as the driver's own library tells of them.
//!
//! In: which they are. Out: how busy they are, for the accounts of the feeds that are open meanwhile, and the sidecar's
//! threads on the NUMA node where they hang. The promise: without a driver nothing happens, which is said once at
//! debug. It knows no feed.

mod chosen;
mod node;

use std::sync::Arc;
use std::time::Duration;

use metrics::{describe_gauge, gauge};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use penstock_daemon::Drain;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use self::chosen::Chosen;
use crate::account::Accounts;
use crate::config::GpuConfig;

/// Between looks; the driver's own figure is of a sixth of a second to a second.
const EVERY: Duration = Duration::from_secs(1);
const BUSY: &str = "penstock_sidecar_gpu_busy_ratio";

/// GPUs that are there, by the driver's own count.
struct Gpus {
    nvml: Nvml,
    indices: Vec<u32>,
}

/// Tells the accounts how busy the GPUs are, until the drain begins.
pub(crate) async fn watch(config: GpuConfig, accounts: Accounts, drain: Drain) {
    // Loading the library and waking the driver can last.
    let opened = spawn_blocking(move || {
        let gpus = Gpus::open(&config)?;
        gpus.settle(&config);
        Ok::<_, NvmlError>(gpus)
    });
    let gpus = match opened.await {
        Ok(Ok(gpus)) if !gpus.indices.is_empty() => Arc::new(gpus),
        Ok(Ok(_)) => return tracing::debug!("the trainer uses no GPU"),
        Ok(Err(error)) => return tracing::debug!(%error, "no NVIDIA driver: nothing is known of GPUs"),
        Err(error) => return tracing::warn!(%error, "the driver's library broke"),
    };
    describe_gauge!(BUSY, "How much of the last moment a GPU of the trainer was busy, 0 to 1.");
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = drain.begun() => return,
            _ = ticks.tick() => {}
        }
        let looked = Arc::clone(&gpus);
        if let Ok(Some(busy)) = spawn_blocking(move || looked.busy()).await {
            accounts.saw_gpus(busy);
        }
    }
}

impl Gpus {
    fn open(config: &GpuConfig) -> Result<Self, NvmlError> {
        let nvml = Nvml::builder().lib_path(config.library.as_os_str()).init()?;
        let chosen = Chosen::parse(config.chosen.as_deref());
        let is_chosen = |index: &u32| {
            let uuid = nvml.device_by_index(*index).and_then(|device| device.uuid());
            chosen.has(*index, uuid.ok().as_deref())
        };
        let indices = (0..nvml.device_count()?).filter(is_chosen).collect();
        Ok(Self { nvml, indices })
    }

    /// Keeps the sidecar beside its GPUs, if they all hang on one node of several.
    fn settle(&self, config: &GpuConfig) {
        let node = |index: &u32| {
            let bus = self.nvml.device_by_index(*index).and_then(|device| device.pci_info());
            node::of_device(&config.sysfs, &bus.ok()?.bus_id)
        };
        let mut nodes = self.indices.iter().map(node);
        let Some(Some(first)) = nodes.next() else { return };
        if !nodes.all(|node| node == Some(first)) {
            return tracing::debug!(
                "the trainer's GPUs hang on several NUMA nodes: the sidecar stays on all"
            );
        }
        match node::stay_on(&config.sysfs, first) {
            Ok(cpus) => tracing::info!(node = first, cpus, "the sidecar stays on the NUMA node of its GPUs"),
            Err(error) => tracing::warn!(node = first, %error, "the sidecar cannot stay beside its GPUs"),
        }
    }

    /// The mean of those that say it; some do not, as do parts of one (MIG).
    fn busy(&self) -> Option<f64> {
        let busy = self.indices.iter().filter_map(|index| {
            let rates = self.nvml.device_by_index(*index).and_then(|device| device.utilization_rates());
            let ratio = f64::from(rates.ok()?.gpu) / 100.0;
            gauge!(BUSY, "gpu" => index.to_string()).set(ratio);
            Some(ratio)
        });
        let (sum, count) = busy.fold((0.0, 0_u32), |(sum, count), ratio| (sum + ratio, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }
}
