// c-transforms: the largest potentials that are feasible beside those of the other side. Expects a struct Own with
// potentials f (n,) and g (m,) and distances (n, stride).

// f_i = min_j d_ij - g_j.
DEVICE float row_least(const Own& own, int i, int m) {
    float least = own.distance[i * own.stride] - own.g[0];
    for (int j = 1; j < m; j++) least = fminf(least, own.distance[i * own.stride + j] - own.g[j]);
    return least;
}

// g_j = min_i d_ij - f_i.
DEVICE float column_least(const Own& own, int j, int n) {
    float least = own.distance[j] - own.f[0];
    for (int i = 1; i < n; i++) least = fminf(least, own.distance[i * own.stride + j] - own.f[i]);
    return least;
}
