"""Ray Data, batches of Arrow: its format of numpy makes lists objects."""

import ray
import ray.data

from arrow import dense

FORMAT = "Parquet"
VERSIONS = ["ray", "pyarrow"]


def arrays(job):
    ray.init(include_dashboard=False, log_to_driver=False, object_store_memory=2 << 30)
    dataset = ray.data.read_parquet(job.files)
    return lambda: map(dense, dataset.iter_batches(batch_size=job.made.batch, batch_format="pyarrow"))
