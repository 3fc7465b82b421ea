"""Put here by `penstock run` for a coordinator's chief: the launcher learns when its program has ended.

TensorFlow's process then waits for workers, for ever if one is gone. Python imports this before the program; it
hands on to the sitecustomize that it hides.
"""

import importlib.util
import os
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))


def _tell_of_the_end(path):
    """Writes to `path`, once the program's main thread is done, what the process is about to exit with."""
    me, wait_for_threads, leave = os.getpid(), threading._shutdown, sys.exit
    said = [None]

    def exit(status=None):
        said[0] = status
        leave(status)

    def shutdown():
        # A forked child ends for itself.
        if os.getpid() == me:
            with open(path + ".draft", "w") as file:
                # Python leaves the error here that ended the program.
                failed = getattr(sys, "last_value", None) is not None or said[0] not in (None, 0)
                file.write("1" if failed else "0")
            os.rename(path + ".draft", path)
        wait_for_threads()

    sys.exit, threading._shutdown = exit, shutdown


def _hand_on():
    """Runs the sitecustomize that would have been found without this one."""
    import importlib.machinery

    entries = [os.path.abspath(entry or os.curdir) for entry in sys.path]
    later = sys.path[entries.index(HERE) + 1 :] if HERE in entries else sys.path
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", later)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


# Taken out of what children of the program inherit.
_path = os.environ.pop("PENSTOCK_END_FILE", None)
if _path:
    _tell_of_the_end(_path)
_hand_on()
