"""``python -m penstock.map_fun SCRIPT FUNCTION ARGS…``: a function written for TensorFlowOnSpark, in a task of ``penstock run``.

``penstock run --map-fun FUNCTION SCRIPT ARGS…`` starts this. The script is imported, not run, so what stands under
``if __name__ == "__main__":`` (its Spark driver) is left alone, and ``FUNCTION(args, ctx)`` is called: ``args`` has what the command
line says (``--batch_size 64`` is ``args.batch_size``), ``ctx`` knows the cluster, and ``ctx.get_data_feed()`` hands out rows of
the job's input. ``from tensorflowonspark import TFNode, compat`` works where that package is not installed.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import sys
import types
import xml.etree.ElementTree
from typing import Any, Callable, Mapping, Optional, Sequence

from ._rows import DataFeed

__all__ = ["Context", "DataFeed", "main"]

#: In which order TensorFlowOnSpark numbers its executors.
_ROLES = ("ps", "chief", "master", "evaluator", "worker")
#: Schemes of file systems in which a relative path begins at the user's home.
_HOME_SCHEMES = ("hdfs", "viewfs")


class Arguments(argparse.Namespace):
    """What the command line says. TensorFlowOnSpark's driver would have filled in the program's own defaults."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the program reads args.{name}, which the command line does not say: add --{name} VALUE")


class Context:
    """What a function learns about the task that it runs in."""

    def __init__(self, environment: Mapping[str, str], epochs: int = 1) -> None:
        config = json.loads(environment["TF_CONFIG"])
        self.job_name: str = config["task"]["type"]
        self.task_index: int = config["task"]["index"]
        self.cluster_spec: dict[str, list[str]] = config["cluster"]
        self.num_workers = sum(len(self.cluster_spec.get(role, ())) for role in ("chief", "master", "worker"))
        self.default_fs = self.defaultFS = _default_fs(environment)
        self.working_dir = os.getcwd()
        self.user = environment.get("USER", "")
        #: TensorFlowOnSpark's way to the feed, for ``TFNode.DataFeed(ctx.mgr)``.
        self.mgr = self
        self._epochs = epochs
        self._results = os.path.join(environment["PENSTOCK_RUN_DIR"], f"results-{self.job_name}-{self.task_index}.jsonl")

    @property
    def executor_id(self) -> int:
        """A number of its own for every task; the evaluator, which is in nobody's cluster, comes last."""
        tasks = [(role, index) for role in _ROLES for index in range(len(self.cluster_spec.get(role, ())))]
        here = (self.job_name, self.task_index)
        return tasks.index(here) if here in tasks else len(tasks)

    worker_num = executor_id

    def absolute_path(self, path: str) -> str:
        """The path with the default file system in front; a relative one begins where TensorFlowOnSpark would begin it."""
        scheme = self.default_fs.split(":", 1)[0]
        if "://" in path:
            return path
        if path.startswith("/"):
            return self.default_fs + path
        if scheme in _HOME_SCHEMES:
            return f"{self.default_fs}/user/{self.user}/{path}"
        return f"{self.default_fs}{self.working_dir}/{path}"

    def get_data_feed(
        self,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: Optional[Mapping[str, str]] = None,
    ) -> DataFeed:
        """The rows of the job's input. Of several inputs it is the one called ``qname_in``, or ``train``."""
        return DataFeed(self._epochs if train_mode else 1, qname_in, self._results, input_mapping)

    def start_cluster_server(self, num_gpus: int = 1, rdma: bool = False) -> tuple[Any, Any]:
        """TensorFlow 1's cluster and this task's server in it."""
        import tensorflow.compat.v1 as tf

        cluster = tf.train.ClusterSpec(self.cluster_spec)
        return cluster, tf.train.Server(cluster, job_name=self.job_name, task_index=self.task_index)

    def export_saved_model(self, sess: Any, export_dir: str, tag_set: str, signatures: Mapping[str, Mapping[str, Any]]) -> None:
        """Saves a session of TensorFlow 1. A signature has ``inputs``, ``outputs`` and ``method_name``."""
        import tensorflow.compat.v1 as tf

        builder = tf.saved_model.Builder(export_dir)
        made = {}
        for name, signature in signatures.items():
            ends = [
                {key: tf.saved_model.build_tensor_info(tensor) for key, tensor in signature[end].items()}
                for end in ("inputs", "outputs")
            ]
            method = signature.get("method_name", name)
            made[name] = tf.saved_model.build_signature_def(*ends, method)
        builder.add_meta_graph_and_variables(sess, tag_set.split(","), signature_def_map=made, clear_devices=True)
        builder.save()


def _default_fs(environment: Mapping[str, str]) -> str:
    """``fs.defaultFS`` of the machine's Hadoop, or this machine's files."""
    path = os.path.join(environment.get("HADOOP_CONF_DIR", ""), "core-site.xml")
    if os.path.isfile(path):
        for entry in xml.etree.ElementTree.parse(path).getroot().iter("property"):
            if (entry.findtext("name") or "").strip() == "fs.defaultFS":
                return (entry.findtext("value") or "").strip().rstrip("/")
    return "file://"


def parse(words: Sequence[str]) -> Arguments:
    """``--name VALUE``, ``--name=VALUE`` and ``--flag``; numbers are numbers. What is no option's is in ``args.argv`` alone."""
    arguments = Arguments(argv=list(words))
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word == "--":
            continue
        name, equals, value = word[2:].partition("=")
        if equals:
            said = _literal(value)
        elif rest and not rest[0].startswith("--"):
            said = _literal(rest.pop(0))
        else:
            said = True
        setattr(arguments, name.replace("-", "_"), said)
    return arguments


def _literal(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, (int, float)) else text


def _load(script: str) -> types.ModuleType:
    """The script as a module, which finds its neighbours as it would if it were run."""
    name = os.path.splitext(os.path.basename(script))[0]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None or spec.loader is None:
        sys.exit(f"penstock.map_fun: {script} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _stand_in(context: Context) -> None:
    """Modules of TensorFlowOnSpark's names, for what programs ask of them in a task."""
    package = types.ModuleType("tensorflowonspark")
    package.__path__ = []
    node, compat = types.ModuleType("tensorflowonspark.TFNode"), types.ModuleType("tensorflowonspark.compat")

    def data_feed(mgr: Context, train_mode: bool = True, *args: Any, **kwargs: Any) -> DataFeed:
        return mgr.get_data_feed(train_mode, *args, **kwargs)

    def export_saved_model(model: Any, export_dir: str, is_chief: bool = False) -> None:
        # A worker that is not the chief must save as well, to where nobody looks.
        import tensorflow as tf

        place = export_dir if is_chief else os.path.join(f"worker_model_{context.executor_id}", export_dir.lstrip("/"))
        tf.saved_model.save(model, place)

    def disable_auto_shard(options: Any) -> None:
        import tensorflow as tf

        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF

    def is_gpu_available() -> bool:
        import tensorflow as tf

        return bool(tf.config.list_physical_devices("GPU"))

    hdfs_path: Callable[[Context, str], str] = lambda ctx, path: ctx.absolute_path(path)
    functions: list[Callable[..., Any]] = [export_saved_model, disable_auto_shard, is_gpu_available]
    vars(compat).update({function.__name__: function for function in functions})
    vars(node).update(
        DataFeed=data_feed,
        hdfs_path=hdfs_path,
        start_cluster_server=lambda ctx, *args: ctx.start_cluster_server(*args),
        export_saved_model=context.export_saved_model,
    )
    vars(package).update(TFNode=node, compat=compat)
    sys.modules.update({module.__name__: module for module in (package, node, compat)})


def main(words: Sequence[str]) -> None:
    """Calls the function."""
    if len(words) < 2:
        sys.exit("usage: python -m penstock.map_fun SCRIPT FUNCTION ARGS…, in a task of penstock run --map-fun FUNCTION SCRIPT ARGS…")
    if "TF_CONFIG" not in os.environ or "PENSTOCK_RUN_DIR" not in os.environ:
        sys.exit("penstock.map_fun: this is no task of a job: start it by penstock run --map-fun FUNCTION SCRIPT ARGS…")
    script, name, *rest = words
    arguments = parse(rest)
    context = Context(os.environ, int(vars(arguments).get("epochs", 1)))
    if importlib.util.find_spec("tensorflowonspark") is None:
        _stand_in(context)
    sys.argv = [script, *rest]
    function = getattr(_load(script), name, None)
    if not callable(function):
        sys.exit(f"penstock.map_fun: {script} has no function {name}: name the one that it gives to TFCluster.run with --map-fun")
    function(arguments, context)


if __name__ == "__main__":
    main(sys.argv[1:])
