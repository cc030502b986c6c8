"""What people do with distances: neighbours as an estimator, kernels, clustering, barycentres. Thin layers."""
