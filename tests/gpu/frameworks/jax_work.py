"""JAX: compiled functions, gradients, a loop, random numbers."""

import jax
import jax.numpy as jnp
import numpy

from digest import show


@jax.jit
def loss(weights, inputs):
    return jnp.mean(jnp.tanh(inputs @ weights) ** 2)


def main():
    key = jax.random.PRNGKey(3)
    weights, inputs = jax.random.normal(key, (256, 256)), jax.random.normal(key, (1024, 256))
    step = jax.jit(lambda w: w - 0.1 * jax.grad(loss)(w, inputs))
    for _ in range(20):
        weights = step(weights)
    show("devices", len(jax.devices()))
    show("descent", numpy.asarray(weights))
    show("loop", numpy.asarray(jax.lax.fori_loop(0, 50, lambda i, x: jnp.sin(x) + i, jnp.ones((1000,)))))
    show("svd", numpy.asarray(jnp.linalg.svd(inputs[:64, :64], compute_uv=False)))


main()
