"""Log-probabilities + advantages -> a scalar to minimise and its partials; tensors in, tensors out, no record, no optimiser."""
