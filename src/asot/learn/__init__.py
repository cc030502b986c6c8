"""What people do with distances: neighbors as an estimator, kernels, clustering, barycenters. Thin layers."""
