"""Coloured noise: random action sequences that push in one direction for a while.

White noise dithers on the spot; noise whose power falls with the frequency as f^-β travels.
iCEM and MPPI plan with it, and it explores better where a robot must first reach something.
"""

import numpy as np
from jaxtyping import Float

MAX_EXPONENT = 10.0  # steeper noise is all but constant over a plan


def coloured_covariance(length: int, exponent: float) -> Float[np.ndarray, "length length"]:
    """The covariance over time of noise with power f^-exponent and variance 1.

    The sequence is cut from a period of twice its length. The spectral method of Timmer and
    König (1995), which iCEM's authors use, takes a whole period and so ties the last action of
    a plan to its first. The constant component, where f^-exponent has its pole, gets the power
    of the lowest frequency.
    """
    frequencies = np.fft.rfftfreq(2 * length)
    frequencies[0] = frequencies[1]
    autocovariance = np.fft.irfft(frequencies**-exponent)
    time = np.arange(length)
    return (autocovariance / autocovariance[0])[np.abs(time[:, None] - time)]


def coloured_basis(length: int, exponent: float) -> Float[np.ndarray, "length length"]:
    """The matrix that turns white Gaussian noise over time into coloured noise."""
    variances, directions = np.linalg.eigh(coloured_covariance(length, exponent))
    # Rounding can take the smallest variance of a steep spectrum below zero.
    return (directions * np.sqrt(variances.clip(min=0.0))).astype(np.float32)


def noise_basis(length: int, exponent: float, knots: int = 0) -> Float[np.ndarray, "length _"]:
    """The same, or one for noise that is straight between evenly spread knots."""
    if not knots or knots >= length:
        return coloured_basis(length, exponent)
    moments = np.linspace(0, knots - 1, length)
    lines = np.stack([np.interp(moments, np.arange(knots), unit) for unit in np.eye(knots)], 1)
    mixed = lines @ coloured_basis(knots, exponent)
    # Between two knots the mean of both is less spread than either.
    return (mixed / np.linalg.norm(mixed, axis=1, keepdims=True)).astype(np.float32)
