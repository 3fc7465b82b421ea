"""Put here by `penstock run --tf1-compat`: `import tensorflow` is TensorFlow 1's API, with version 2's behaviour off.

Python imports this before the program. It hands on to the sitecustomize that it hides. A TensorFlow of version 1 is
left as it is, but for MNIST's reader where it lacks that.
"""

import importlib
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# What TensorFlow 2 does not have any more, and many programs of TensorFlow 1 begin with.
EXAMPLES = "tensorflow.examples"
INPUT_DATA = EXAMPLES + ".tutorials.mnist.input_data"
PACKAGES = (EXAMPLES, EXAMPLES + ".tutorials", EXAMPLES + ".tutorials.mnist")


class _Tensorflow1(object):
    """Finds TensorFlow as Python does, and makes it version 1 once it is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name == "tensorflow":
            # The real one, from here on.
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader)
            return spec
        return None


class _Loader(object):
    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)

    def create_module(self, spec):
        return self._real.create_module(spec)

    def exec_module(self, module):
        self._real.exec_module(module)
        sys.meta_path.append(_Examples())
        if not module.__version__.startswith("1."):
            v1 = module.compat.v1
            v1.disable_v2_behavior()
            # `import tensorflow.python…` goes on to find its parts where they are.
            v1.__path__ = list(dict.fromkeys(list(v1.__path__) + list(module.__path__)))
            v1.__version__ = module.__version__
            sys.modules["tensorflow"] = v1


class _Examples(object):
    """Finds `tensorflow.examples.tutorials.mnist.input_data` where TensorFlow itself has none."""

    def find_spec(self, name, path=None, target=None):
        if name in PACKAGES:
            return importlib.util.spec_from_loader(name, _Empty(), is_package=True)
        if name == INPUT_DATA:
            return importlib.util.spec_from_file_location(name, os.path.join(HERE, "penstock_tf1_mnist.py"))
        return None


class _Empty(object):
    def create_module(self, spec):
        return None

    def exec_module(self, module):
        pass


def _hand_on():
    """Runs the sitecustomize that would have been found without this one."""
    import importlib.machinery

    others = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.meta_path.insert(0, _Tensorflow1())
_hand_on()
