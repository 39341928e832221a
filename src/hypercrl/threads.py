"""One thread a run: many runs side by side use the cores best."""

from collections.abc import Mapping

SINGLE_THREAD = "--xla_cpu_multi_thread_eigen=false"
THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that keep a process on one thread; they must be set before JAX starts."""
    flags = environment.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        flags = f"{flags} {SINGLE_THREAD}".strip()
    return {"XLA_FLAGS": flags, **dict.fromkeys(THREAD_COUNTS, "1")}
