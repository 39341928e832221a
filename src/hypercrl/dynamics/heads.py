"""What the target network's last layer means: a point, or a Gaussian over the outputs.

The Gaussian head is that of PETS (Chua et al. 2018): the log-variance is softly clamped
between learned bounds, whose spread is penalised. Planning uses the mean either way.

A planner needs to know above all that nothing moves where nothing does: what it is promised of a
door that is out of reach it goes for. The squared error hardly minds a small error there, as the
spread of a target is that of its few great moves; the likelihood divides by what is usual *here*.

A network that was sure of the last task is as sure at the start of the next and wrong there, and
the likelihood's gradients are then as large as the variances were small. `gaussian_beta` weighs
every term by its own variance to the power β (Seitzer et al. 2022), which no gradient follows:
β = 0 is the likelihood, with 1 the mean is learnt as with the squared error, and with ½, between
the two, errors are divided by the standard deviation instead of the variance.
"""

import abc
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

HeadParams = dict[str, Float[Array, "_outputs"]]


class Head(abc.ABC):
    """Stateless; its trainable numbers, if any, are handed in."""

    @abc.abstractmethod
    def num_raw(self, num_outputs: int) -> int:
        """Network outputs needed for `num_outputs` predictions."""

    @abc.abstractmethod
    def init(self, num_outputs: int) -> HeadParams: ...

    @abc.abstractmethod
    def mean(self, raw: Float[Array, "*N raw"]) -> Float[Array, "*N outputs"]: ...

    @abc.abstractmethod
    def std(self, params: HeadParams, raw: Float[Array, "raw"]) -> Float[Array, "outputs"] | None:
        """The spread around the mean; None of a head that does not know it."""

    @abc.abstractmethod
    def loss(
        self, params: HeadParams, raw: Float[Array, "raw"], target: Float[Array, "outputs"]
    ) -> Float[Array, ""]:
        """One sample's loss, divided by the number of outputs."""

    @abc.abstractmethod
    def negative_log_likelihood(
        self, params: HeadParams, raw: Float[Array, "raw"], target: Float[Array, "outputs"]
    ) -> Float[Array, ""]:
        """One sample's, summed over the outputs, up to a constant."""

    @abc.abstractmethod
    def divergence(
        self, params: HeadParams, before: Float[Array, "raw"], now: Float[Array, "raw"]
    ) -> Float[Array, ""]:
        """How far one sample's prediction has moved from what it was, on the scale of the loss."""

    @abc.abstractmethod
    def penalty(self, params: HeadParams) -> Float[Array, ""]:
        """What the head's own numbers cost, once a batch."""

    def losses(
        self, params: HeadParams, raw: Float[Array, "B raw"], targets: Float[Array, "B outputs"]
    ) -> Float[Array, "B"]:
        """The loss of every sample of a batch."""
        return jax.vmap(self.loss, in_axes=(None, 0, 0))(params, raw, targets)

    def batch_loss(
        self, params: HeadParams, raw: Float[Array, "B raw"], targets: Float[Array, "B outputs"]
    ) -> Float[Array, ""]:
        """L_dyn: summed over the batch, divided by the number of outputs (the authors' scale)."""
        return self.losses(params, raw, targets).sum() + self.penalty(params)


@dataclass(frozen=True)
class PointHead(Head):
    """The prediction itself, with the squared error."""

    def num_raw(self, num_outputs):
        return num_outputs

    def init(self, num_outputs):
        return {}

    def mean(self, raw):
        return raw

    def std(self, params, raw):
        return None

    def loss(self, params, raw, target):
        return jnp.mean(squared_errors(raw, target))

    def negative_log_likelihood(self, params, raw, target):
        """Of a Gaussian with unit variance in the units of the (scaled) targets."""
        return jnp.sum(squared_errors(raw, target)) / 2

    def divergence(self, params, before, now):
        return jnp.mean(squared_errors(now, before))

    def penalty(self, params):
        return jnp.zeros(())


@dataclass(frozen=True)
class GaussianHead(Head):
    """Mean and log-variance, with the negative log-likelihood, or the β-weighted one."""

    beta: float = 0.0  # of the variance that weighs a term: 0 is the likelihood itself
    initial_max: float = 0.5  # log-variance bounds before training, as in PETS
    initial_min: float = -10.0
    spread_weight: float = 0.01

    def num_raw(self, num_outputs):
        return 2 * num_outputs

    def init(self, num_outputs):
        return {
            "max_log_variance": jnp.full(num_outputs, self.initial_max, dtype=float),
            "min_log_variance": jnp.full(num_outputs, self.initial_min, dtype=float),
        }

    def mean(self, raw):
        return raw[..., : raw.shape[-1] // 2]

    def log_variance(self, params, raw):
        """The second half of the outputs, clamped softly from above and then from below."""
        high, low = params["max_log_variance"], params["min_log_variance"]
        free = raw[..., raw.shape[-1] // 2 :]
        capped = high - jax.nn.softplus(high - free)
        return low + jax.nn.softplus(capped - low)

    def std(self, params, raw):
        return jnp.exp(self.log_variance(params, raw) / 2)

    def negative_log_likelihood(self, params, raw, target):
        """−log N(target; mean, variance), the constant included."""
        return self._terms(self.log_variance(params, raw), raw, target).sum()

    def loss(self, params, raw, target):
        log_variance = self.log_variance(params, raw)
        terms = self._terms(log_variance, raw, target)
        if self.beta:
            terms *= jax.lax.stop_gradient(jnp.exp(self.beta * log_variance))
        return terms.sum() / len(target)

    def divergence(self, params, before, now):
        """The Kullback-Leibler divergence to second order: it stays finite wherever `now` is."""
        was = self.log_variance(params, before)
        of_mean = squared_errors(self.mean(now), self.mean(before)) * jnp.exp(-was)
        of_spread = squared_errors(self.log_variance(params, now), was) / 2
        return jnp.mean(0.5 * jnp.exp(self.beta * was) * (of_mean + of_spread))

    def _terms(
        self,
        log_variance: Float[Array, "outputs"],
        raw: Float[Array, "raw"],
        target: Float[Array, "outputs"],
    ) -> Float[Array, "outputs"]:
        errors = squared_errors(self.mean(raw), target)
        return 0.5 * (errors * jnp.exp(-log_variance) + log_variance + jnp.log(2 * jnp.pi))

    def penalty(self, params):
        spread = params["max_log_variance"] - params["min_log_variance"]
        return self.spread_weight * spread.sum()


def squared_errors(
    mean: Float[Array, "outputs"], target: Float[Array, "outputs"]
) -> Float[Array, "outputs"]:
    """One for each output; the two may not broadcast against each other."""
    return (mean - target) ** 2


HEADS: dict[str, Head] = {
    "point": PointHead(),
    "gaussian": GaussianHead(),
    "gaussian_beta": GaussianHead(beta=0.5),
}
