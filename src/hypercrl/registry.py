"""Names for suites, learners and planners, registered where they are defined.

A registry knows the package that holds the built-in variants and imports it on the first
look-up only, so that `import hypercrl` stays light. A variant from outside registers itself
the same way; `load_plugin` imports such a module for the command line.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from hypercrl.errors import UserError

T = TypeVar("T", bound=Callable[..., Any])


class Registry(Generic[T]):
    """Maps a name to a factory: a class or a function that builds the variant."""

    def __init__(self, kind: str, package: str, modules: tuple[str, ...]):
        """`modules` of the package hold the built-in variants; helpers may live beside them."""
        self.kind = kind
        self.builtin_modules = modules
        self._package = package
        self._factories: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate the class or function that builds the variant called `name`."""

        def add(factory: T) -> T:
            known = self._factories.get(name)
            if known is not None and known.__module__ != factory.__module__:
                raise UserError(
                    f"The {self.kind} name '{name}' is already taken by {known.__module__}."
                )
            self._factories[name] = factory
            return factory

        return add

    def get(self, name: str) -> T:
        """The factory called `name`; an unknown name lists the known ones."""
        self._load_builtins()
        if name not in self._factories:
            known = ", ".join(self.names())
            raise UserError(f"There is no {self.kind} called '{name}'; choose one of: {known}.")
        return self._factories[name]

    def name_of(self, factory: Any) -> str:
        """The name under which a factory was registered."""
        self._load_builtins()
        for name, known in self._factories.items():
            if known is factory:
                return name
        raise UserError(f"{factory!r} is not a registered {self.kind}.")

    def names(self) -> list[str]:
        self._load_builtins()
        return sorted(self._factories)

    def _load_builtins(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        for module in self.builtin_modules:
            importlib.import_module(f"{self._package}.{module}")


suites: Registry = Registry(
    "suite", "hypercrl.suites", ("cartpole", "door", "half_cheetah", "pusher", "slide")
)
hypernets: Registry = Registry(
    "hypernetwork",
    "hypercrl.dynamics",
    (
        "basis_hypernet",
        "chunked_hypernet",
        "full_hypernet",
        "low_rank_hypernet",
        "residual_hypernet",
    ),
)
regularisers: Registry = Registry(
    "regulariser", "hypercrl.learning", ("prediction_regulariser", "weight_regulariser")
)
learners: Registry = Registry(
    "method",
    "hypercrl.learners",
    (
        "coreset",
        "ewc",
        "finetune",
        "ftl",
        "hypercrl",
        "hypercrl_mt",
        "multitask",
        "pnn",
        "si",
        "single",
    ),
)
planners: Registry = Registry("planner", "hypercrl.planning", ("cem", "icem", "mppi"))


def load_plugin(source: str) -> None:
    """Import a module, or a `.py` file, that registers variants of its own."""
    try:
        if source.endswith(".py"):
            path = Path(source)
            name = path.stem
            if name in sys.modules:
                return
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        else:
            importlib.import_module(source)
    except (ImportError, FileNotFoundError) as error:
        raise UserError(f"The plugin '{source}' cannot be imported: {error}.") from error
