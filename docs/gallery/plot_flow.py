"""
Clouds that flow along gradients
================================

The gradient of an exact distance tells every point where its mass should go. Following it turns one cloud into another.
Several clouds move at once: they are one batch, and each step is one call.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from asot import gradients

rng = np.random.default_rng(0)
n = 200
angle = rng.uniform(0, 2 * np.pi, n)
two_arcs = np.where(np.arange(n) < n // 2, 0.5, -0.5)[:, None] * [
    1,
    0.4,
] + 0.7 * np.stack(
    [
        np.cos(angle / 2 + np.pi * (np.arange(n) >= n // 2)),
        np.sin(angle / 2 + np.pi * (np.arange(n) >= n // 2)),
    ],
    axis=1,
)
targets = {
    "ring": np.stack([np.cos(angle), np.sin(angle)], axis=1),
    "two arcs": two_arcs,
    "cross": rng.uniform(-1, 1, (n, 1))
    * np.where(rng.random((n, 1)) < 0.5, [1, 1], [1, -1]),
}
y = torch.tensor(np.stack(list(targets.values())))
x = torch.tensor(rng.normal(0, 0.25, y.shape))

# %%
# The loss is half the sum of squares over the plan, ½ W₂² (here: "sqeuclidean" with p = 1). Its gradient in a point of
# mass 1/n is 1/n times the way to its partner, so n times the gradient is the way itself.

frames, values = [x.clone()], []
for _ in range(30):
    points = x.requires_grad_()
    value = gradients.wasserstein(points, y, metric="sqeuclidean") / 2
    (gradient,) = torch.autograd.grad(value.sum(), points)
    x = (points - 0.15 * n * gradient).detach()
    frames.append(x.clone())
    values.append(value.detach().numpy())

shown = (0, 4, 10, 30)
fig, axes = plt.subplots(3, len(shown), figsize=(10, 7.5), layout="constrained")
for row, (name, line) in enumerate(zip(targets, axes, strict=True)):
    for step, ax in zip(shown, line, strict=True):
        ax.scatter(*y[row].T, s=4, color="0.8")
        ax.scatter(*frames[step][row].T, s=4)
        ax.set(
            xticks=[],
            yticks=[],
            aspect="equal",
            xlim=(-1.4, 1.4),
            ylim=(-1.4, 1.4),
        )
        if row == 0:
            ax.set_title(f"step {step}")
    line[0].set_ylabel(name)
plt.show()

# %%
# All three losses fall by the same factor 0.85² in each step, since all points go 15 percent of their way.

print(np.array(values)[[0, 1, 2, 29]].round(6))
