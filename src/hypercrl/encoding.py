"""How a state enters the network and how the network's output moves it.

A suite declares its state as a sequence of fields; the network sees the features of each
field and predicts one output vector, of which each field takes its part. Plain numbers move
by differences, angles enter as cosine and sine, orientations are composed and not added.
"""

import abc
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float


@dataclass(frozen=True)
class Field(abc.ABC):
    """`size` consecutive numbers of the state that are treated alike."""

    size: int

    @property
    def num_features(self) -> int:
        return self.size

    @property
    def num_outputs(self) -> int:
        return self.size

    @abc.abstractmethod
    def features(self, x: Float[Array, "size"]) -> Float[Array, "features"]:
        """What the network sees of the field."""

    @abc.abstractmethod
    def target(self, x: Float[Array, "size"], y: Float[Array, "size"]) -> Float[Array, "outputs"]:
        """The output that takes the field from `x` to `y`."""

    @abc.abstractmethod
    def advance(
        self, x: Float[Array, "size"], output: Float[Array, "outputs"]
    ) -> Float[Array, "size"]:
        """The field after one step: the inverse of `target` in its second argument."""

    @abc.abstractmethod
    def difference(
        self, x: Float[Array, "size"], y: Float[Array, "size"]
    ) -> Float[Array, "outputs"]:
        """How far `y` is from `x`, for model errors."""


@dataclass(frozen=True)
class Difference(Field):
    """Numbers whose change is predicted."""

    def features(self, x):
        return x

    def target(self, x, y):
        return y - x

    def advance(self, x, output):
        return x + output

    def difference(self, x, y):
        return y - x


@dataclass(frozen=True)
class Absolute(Field):
    """Numbers whose next value is predicted, such as a velocity that jumps."""

    def features(self, x):
        return x

    def target(self, x, y):
        return y

    def advance(self, x, output):
        return output

    def difference(self, x, y):
        return y - x


@dataclass(frozen=True)
class Angle(Field):
    """Angles in radians: seen as cosine and sine, moved by the shorter way round."""

    @property
    def num_features(self) -> int:
        return 2 * self.size

    def features(self, x):
        return jnp.concatenate([jnp.cos(x), jnp.sin(x)])

    def target(self, x, y):
        return jnp.arctan2(jnp.sin(y - x), jnp.cos(y - x))

    def advance(self, x, output):
        return x + output

    def difference(self, x, y):
        return self.target(x, y)


@dataclass(frozen=True)
class Quaternion(Field):
    """A unit quaternion (w, x, y, z): the output is a rotation vector in the body's frame."""

    size: int = 4

    @property
    def num_outputs(self) -> int:
        return 3

    def features(self, x):
        # q and -q are the same orientation: show the network only one of them.
        return jnp.where(x[0] < 0, -x, x)

    def target(self, x, y):
        return _rotation_vector(_multiply(_conjugate(x), y))

    def advance(self, x, output):
        return _multiply(x, _from_rotation_vector(output))

    def difference(self, x, y):
        return self.target(x, y)


@dataclass(frozen=True)
class Encoding:
    """The fields of a state, in order."""

    fields: tuple[Field, ...]

    @classmethod
    def differences(cls, state_dim: int) -> "Encoding":
        """Plain numbers throughout."""
        return cls((Difference(state_dim),))

    @property
    def state_dim(self) -> int:
        return sum(field.size for field in self.fields)

    @property
    def num_features(self) -> int:
        return sum(field.num_features for field in self.fields)

    @property
    def num_outputs(self) -> int:
        return sum(field.num_outputs for field in self.fields)

    def features(self, state: Float[Array, "S"]) -> Float[Array, "features"]:
        return _join(f.features(x) for f, x in zip(self.fields, self._split(state), strict=True))

    def target(
        self, state: Float[Array, "S"], next_state: Float[Array, "S"]
    ) -> Float[Array, "outputs"]:
        pairs = zip(self.fields, self._split(state), self._split(next_state), strict=True)
        return _join(f.target(x, y) for f, x, y in pairs)

    def advance(
        self, state: Float[Array, "S"], output: Float[Array, "outputs"]
    ) -> Float[Array, "S"]:
        start, parts = 0, []
        for f, x in zip(self.fields, self._split(state), strict=True):
            parts.append(f.advance(x, output[start : start + f.num_outputs]))
            start += f.num_outputs
        return _join(parts)

    def difference(
        self, state: Float[Array, "S"], other: Float[Array, "S"]
    ) -> Float[Array, "outputs"]:
        pairs = zip(self.fields, self._split(state), self._split(other), strict=True)
        return _join(f.difference(x, y) for f, x, y in pairs)

    def _split(self, state):
        start, parts = 0, []
        for f in self.fields:
            parts.append(state[start : start + f.size])
            start += f.size
        return parts


def _join(parts):
    parts = list(parts)
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def _conjugate(q):
    return q * jnp.array([1.0, -1.0, -1.0, -1.0])


def _multiply(p, q):
    scalar = p[0] * q[0] - jnp.dot(p[1:], q[1:])
    vector = p[0] * q[1:] + q[0] * p[1:] + jnp.cross(p[1:], q[1:])
    return jnp.concatenate([scalar[None], vector])


def _rotation_vector(q):
    q = jnp.where(q[0] < 0, -q, q)
    squared = jnp.dot(q[1:], q[1:])
    # Near the identity 2 atan2(|v|, w) / |v| tends to 2; the guard keeps gradients finite.
    norm = jnp.sqrt(jnp.where(squared > 1e-12, squared, 1.0))
    scale = jnp.where(squared > 1e-12, 2.0 * jnp.arctan2(norm, q[0]) / norm, 2.0)
    return scale * q[1:]


def _from_rotation_vector(v):
    squared = jnp.dot(v, v)
    angle = jnp.sqrt(jnp.where(squared > 1e-12, squared, 1.0))
    scale = jnp.where(squared > 1e-12, jnp.sin(angle / 2) / angle, 0.5)
    q = jnp.concatenate([jnp.cos(jnp.where(squared > 1e-12, angle, 0.0) / 2)[None], scale * v])
    return q / jnp.linalg.norm(q)
