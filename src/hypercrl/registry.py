"""Names for suites, learners and planners, registered where they are defined.

A registry knows the package that holds the built-in variants and imports it on the first
look-up only, so that `import hypercrl` stays light. A variant from outside comes in one of two
ways. An installed package names it as an entry point of the group `hypercrl.suites`,
`hypercrl.learners` or `hypercrl.planners`, and it is there. Anything else registers itself the
way the built-in ones do, in a module or file that `load_plugin` imports.
"""

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from hypercrl.errors import UserError, printable
from hypercrl.trust import trust

T = TypeVar("T", bound=Callable[..., Any])


class Registry(Generic[T]):
    """Maps a name to a factory: a class or a function that builds the variant."""

    def __init__(self, kind: str, package: str, modules: tuple[str, ...], group: str = ""):
        """`modules` of the package hold the built-in variants; helpers may live beside them.

        `group` is that of the entry points by which installed packages add more.
        """
        self.kind = kind
        self.builtin_modules = modules
        self._package = package
        self._group = group
        self._factories: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate the class or function that builds the variant called `name`."""

        def add(factory: T) -> T:
            known = self._factories.get(name)
            if known is not None and known.__module__ != factory.__module__:
                raise UserError(
                    f"The {self.kind} name '{name}' is already taken by {_home(known)}."
                )
            self._factories[name] = factory
            return factory

        return add

    def get(self, name: str) -> T:
        """The factory called `name`; an unknown name lists the known ones."""
        self._load_builtins()
        if name not in self._factories and name in self._installed:
            self._load_installed(self._installed[name])
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
        return sorted({*self._factories, *self._installed})

    def __getattr__(self, name: str) -> Any:
        """A module of the package that has this registry's name, once it was imported.

        `hypercrl.learners` is the registry, and `import hypercrl.learners.ewc` goes through it.
        """
        try:
            return sys.modules[f"{self.__dict__['_package']}.{name}"]
        except KeyError:
            raise AttributeError(f"A registry has no attribute '{name}'.") from None

    @functools.cached_property
    def _installed(self) -> dict[str, importlib.metadata.EntryPoint]:
        """What installed packages offer; nothing is imported before it is asked for."""
        found = importlib.metadata.entry_points(group=self._group) if self._group else ()
        return {point.name: point for point in found}

    def _load_installed(self, point: importlib.metadata.EntryPoint) -> None:
        """An entry point is the factory itself, or a module that registers it."""
        with _explained(f"entry point '{point.name} = {point.value}'"):
            factory: Any = point.load()
        if point.name in self._factories:
            return
        if not callable(factory):
            raise UserError(
                f"The entry point '{point.name} = {point.value}' must be what makes the "
                f"{self.kind}, or a module that registers it under that name."
            )
        self.register(point.name)(cast(T, factory))

    def _load_builtins(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        for module in self.builtin_modules:
            importlib.import_module(f"{self._package}.{module}")


suites: Registry = Registry(
    "suite",
    "hypercrl.suites",
    ("cartpole", "door", "half_cheetah", "pusher", "slide"),
    "hypercrl.suites",
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
    "hypercrl.learners",
)
planners: Registry = Registry(
    "planner", "hypercrl.planning", ("cem", "icem", "mppi"), "hypercrl.planners"
)


_plugins: dict[str, None] = {}  # in the order in which they were loaded


def load_plugin(source: str) -> None:
    """Import a module, or a `.py` file, that registers variants of its own; once is enough.

    Whoever calls this has named the plugin, and need not do so again for the runs made with it
    (`trust`). A file is known by its path and not by its name, so that two of one name, or one
    that is called like a module of Python, do not get in each other's way.
    """
    if not source.endswith(".py"):
        with _explained(f"plugin '{source}'"):
            importlib.import_module(source)
        _note(source)
        return
    path = Path(source).resolve()
    if str(path) in _plugins:
        return
    if not path.is_file():
        raise UserError(f"The plugin '{source}' cannot be imported: there is no such file.")
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and type hints look their module up by its name
    try:
        with _explained(f"plugin '{source}'", path):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _note(str(path))


def _note(plugin: str) -> None:
    _plugins[plugin] = None
    trust(plugin)


def loaded_plugins() -> tuple[str, ...]:
    """The plugins of this process, files by their whole path, so that a run can name them."""
    return tuple(_plugins)


def _module_name(path: Path) -> str:
    return f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def _home(factory: Any) -> str:
    """Where a variant is defined, for a person: a plugin's file, otherwise a module."""
    path = getattr(sys.modules.get(factory.__module__), "__file__", None)
    return path if path in _plugins else factory.__module__


@contextlib.contextmanager
def _explained(what: str, path: Path | None = None) -> Iterator[None]:
    """Whatever goes wrong while somebody else's module is imported, in one sentence."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # to end the program is not for a plugin to decide
        reason = (str(error) or "no reason given").splitlines()[0].rstrip(".")
        if not isinstance(error, ImportError):
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == str(path)]
            place = f" in line {lines[-1]}" if lines else ""
            reason = f"{type(error).__name__}{place}: {reason}"
        raise UserError(f"The {what} cannot be imported: {printable(reason)}.") from error
