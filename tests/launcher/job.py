"""A job of one strategy, whose tasks die where a test says: `job.py STRATEGY [TASK=STAGE,STAGE…]…`.

In its first life a task that is named dies at the first of its stages, in its second at the second, and then lives.
The stages: `start`, `import` (amid TensorFlow's), `train` (half of the steps are done), `end` (all are).
"""

import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time

STEPS = 40
run = pathlib.Path(os.environ["PENSTOCK_RUN_DIR"])
config = json.loads(os.environ["TF_CONFIG"])
role, index = config["task"]["type"], config["task"]["index"]
name = f"{role}:{index}"
lives = run / "lives"
lives.mkdir(exist_ok=True)
life = len(list(lives.glob(f"{name}.*")))
(lives / f"{name}.{life}").touch()
strategy = sys.argv[1]
stages = dict(death.split("=") for death in sys.argv[2:]).get(name, "").split(",")
dies_at = stages[life] if life < len(stages) else ""


def reach(stage):
    if stage == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)


def die_when(what):
    def wait():
        while not what():
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def done_steps():
    try:
        return int((run / "steps").read_text())
    except (FileNotFoundError, ValueError):
        return 0


def tell_steps(steps):
    (run / "steps.draft").write_text(str(steps))
    (run / "steps.draft").rename(run / "steps")


reach("start")
if dies_at == "import":
    die_when(lambda: "tensorflow.python.ops" in sys.modules)
import tensorflow as tf  # noqa: E402

if dies_at == "import":
    time.sleep(1000)


def in_step():
    import penstock

    both = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def total(value):
        return both.reduce("SUM", both.run(lambda: value), axis=None)

    ids = []
    feed = penstock.feed(dataset="train", batch_size=20, shuffle="rows", seed=1, columns=["id"])
    for step, batch in enumerate(feed.tf()):
        assert total(tf.constant(1.0)).numpy() == config_size()
        ids += batch["id"].numpy().tolist()
        if step == STEPS // 2:
            reach("train")
    reach("end")
    (run / f"ids-{index}.json").write_text(json.dumps(ids))


def config_size():
    return sum(len(members) for members in config["cluster"].values())


def alone():
    import penstock

    feed = penstock.feed(dataset="train", batch_size=20, shuffle="rows", seed=1, columns=["id"])
    with open(run / "ids.txt", "a") as ids:
        for step, batch in enumerate(feed):
            ids.write("".join(f"{row}\n" for row in batch["id"]))
            ids.flush()
            if step == STEPS // 2:
                reach("train")
    reach("end")
    # The evaluator has its deaths first.
    while any(f"evaluator:0={rest}" in sys.argv for rest in ["start,import,train"]) and not (run / "evaluated").exists():
        time.sleep(0.01)


def evaluate():
    reach("train")
    (run / "evaluated").touch()


def coordinated():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if role != "chief":
        if dies_at == "train":
            die_when(lambda: done_steps() >= STEPS // 2)
        tf.distribute.Server(resolver.cluster_spec(), job_name=role, task_index=index, protocol="grpc").join()
    coordinator = tf.distribute.coordinator.ClusterCoordinator(tf.distribute.ParameterServerStrategy(resolver))
    with coordinator.strategy.scope():
        count = tf.Variable(0)

    @tf.function
    def step():
        return count.assign_add(1)

    tell_steps(0)
    victims = [death.split("=")[0] for death in sys.argv[2:] if "train" in death and not death.startswith("chief")]
    for done in range(STEPS):
        coordinator.schedule(step)
        coordinator.join()
        tell_steps(done + 1)
        if done == STEPS // 2:
            reach("train")
            for victim in victims:
                await_death(victim)
    reach("end")
    (run / "count").write_text(str(int(count.numpy())))


def await_death(victim):
    """Goes on once the victim serves in the life that lasts, or is itself ended with it."""
    lasting = len(dict(death.split("=") for death in sys.argv[2:])[victim].split(","))
    while len(list(lives.glob(f"{victim}.*"))) <= lasting or not serves(victim):
        time.sleep(0.01)


def serves(task):
    kind, place = task.split(":")
    host, port = config["cluster"][kind][int(place)].rsplit(":", 1)
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def tf1():
    tf1 = tf.compat.v1
    tf1.disable_v2_behavior()
    cluster = tf.train.ClusterSpec(config["cluster"])
    server = tf1.train.Server(cluster, job_name=role, task_index=index)
    if role == "ps":
        if dies_at == "train":
            die_when(lambda: done_steps() >= STEPS // 2)
        server.join()
    mine = f"/job:worker/task:{index}"
    with tf1.device(tf1.train.replica_device_setter(worker_device=mine, cluster=cluster)):
        step = tf1.train.get_or_create_global_step()
        train = step.assign_add(1)
    filters = tf1.ConfigProto(device_filters=["/job:ps", mine], inter_op_parallelism_threads=1)
    hooks = [tf1.train.StopAtStepHook(last_step=STEPS)]
    session = tf1.train.MonitoredTrainingSession(
        master=server.target, is_chief=index == 0, config=filters, hooks=hooks, checkpoint_dir=str(run / "model"),
        save_checkpoint_steps=5, save_summaries_steps=None, save_summaries_secs=None,
    )
    victims = [death.split("=")[0] for death in sys.argv[2:] if not death.startswith(name)]
    with session:
        while not session.should_stop():
            done = session.run(train)
            if index == 0:
                tell_steps(done)
            if done >= STEPS // 2:
                reach("train")
                for victim in victims:
                    await_death(victim)
    reach("end")


if role == "evaluator":
    evaluate()
else:
    {"in-step": in_step, "alone": alone, "coordinated": coordinated, "tf1": tf1}[strategy]()
